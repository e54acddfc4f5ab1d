"""TPC-H: tables, generated rows, the views' SQL, and a change stream over them."""

"""VMS: always-fresh SQL views inside HBase.

The tour: one change on its way from the writer to the reader of a view, by file and function name. A view

    CREATE MATERIALIZED VIEW revenue AS
    SELECT country, count(*) AS orders, sum(amount) AS total
    FROM orders JOIN customers ON orders.customer = customers.id GROUP BY country

is registered; how its SQL became a plan is the tour's last part. Now somebody runs

    db.sql("UPDATE customers SET country = 'DE' WHERE id = 3")

**The write.** The statement is taken apart; a SELECT finds the keys it means; the row goes into the store with
some columns only, as an HBase put may. Row and stream entry are one atomic write, so a change cannot be in the
table and not in the stream. The writer gets a token: the place of its write in the stream.

    vms/manager/database.py              Database.sql, Database.put
    vms/manager/backend.py               Backend
    vms/manager/parser.py                parse
    vms/manager/statements.py            run
    vms/manager/query.py                 run_query
    vms/manager/writes.py                update_rows
    vms/stream/encode.py                 RowEncoder.puts
    vms/store/embedded.py                EmbeddedStore.mutate
    vms/model/token.py                   Token

**The stream.** The View Manager's loop polls its source. Cells become typed columns; what cannot be decoded goes
to the dead letters and stops nothing. Each row gets the slot of its key: the slot decides which member owns it.

    vms/manager/runtime.py               Runtime
    vms/manager/epochs.py                Epochs.step
    vms/stream/embedded.py               EmbeddedSource.poll, EmbeddedSource.acknowledge
    vms/stream/decode.py                 RowDecoder.decode
    vms/manager/deadletters.py           DeadLetterTable.add
    vms/maintenance/source_rows.py       with_slots

**The owner.** From here on nothing does I/O: a member takes events and returns effects, and the loop does what
they ask. The member that received the batch forwards each row to its owner (here: itself). The owner drops
repeats by watermark and lets the row wait for the next epoch.

    vms/maintenance/messages.py          Delivered, Forward, ProposeCut, WriteRows
    vms/maintenance/member.py            Member.handle, Phase
    vms/maintenance/delivery.py          Delivery.deliver, Delivery.durable
    vms/maintenance/timeline.py          TimelineBuffer.offer, TimelineBuffer.take

**The cut.** The leader issues an epoch by compare-and-set on the one record. The member closes its buffer: this
is its cut. The log makes it durable, and from then on the epoch's outcome is decided, whatever crashes: all
that follows is a pure function of the state and the cuts. Only now is the source told that it may forget.

    vms/maintenance/leader.py            Leader.decide
    vms/maintenance/record.py            Record.next, Record.commit
    vms/manager/coordination.py          LocalCoordination.compare_and_set
    vms/maintenance/cut.py               Cut
    vms/manager/leading.py               Leading.lead
    vms/manager/performer.py             Performer.propose
    vms/manager/log.py                   TransactionLog.propose

**The operations.** The DeltaView knows the old row, so the partial put becomes -(3, 'FR') +(3, 'DE'). Each
operation turns changes into changes: the join finds the orders of customer 3 and emits them with both signs,
the aggregation emits the old and the new row of the two groups, and only those. Between two operations that
need different keys, rows travel to the owner of theirs. A table whose changes carry before-images has no
DeltaView: HBase tells the old row.

    vms/maintenance/virtual_store.py     VirtualStore
    vms/maintenance/epoch_run.py         EpochRun.apply_cut, EpochRun.advance, EpochRun.receive
    vms/maintenance/operations/delta_view.py        DeltaView.step
    vms/maintenance/operations/row_images.py        RowImages.step
    vms/maintenance/operations/selection.py         SelectionOperation.step
    vms/maintenance/operations/projection.py        ProjectionOperation.step
    vms/maintenance/operations/join.py              JoinOperation.step
    vms/maintenance/operations/pre_aggregation.py   PreAggregationOperation.step
    vms/maintenance/operations/aggregation.py       AggregationOperation.step
    vms/maintenance/operations/output.py            view_rows
    vms/kernels/groups.py                GroupTable.add
    vms/kernels/join_index.py            JoinIndex

**The commit.** The changed view rows are written with cell timestamp = epoch. When every member says that it is
done, the leader commits: one more compare-and-set makes the whole epoch visible, of all views at once.

    vms/manager/store_io.py              write_views
    vms/viewtable/layout.py              ViewLayout.mutations

**The read.** A reader that shows its token waits until the committed epoch covers it, then reads every row below
epoch + 1: all of one epoch, none of the next.

    vms/manager/runtime.py               Runtime.covers
    vms/manager/view.py                  View.read, View.watch
    vms/viewtable/reader.py              read_view
    vms/viewtable/layout.py              ViewLayout.table

**After a crash.** The member is loaded from its last checkpoint and its log, and goes on.

    vms/manager/recovery.py              recover
    vms/maintenance/member.py            Member.checkpoint, Member.restore, Member.replay

**Before all that.** CREATE MATERIALIZED VIEW: DataFusion understands the text, we read its plan, put the joins in
order, and decide where rows must travel. What cannot be maintained is refused here, with a reason.

    vms/plan/frontend.py                 plan_view
    vms/plan/refusals.py                 check
    vms/plan/substrait_reader.py         read_plan
    vms/plan/join_order.py               order_joins
    vms/plan/join_keys.py                with_keys
    vms/plan/rounds.py                   to_rounds
    vms/plan/explain.py                  explain

**Over HBase** the store, the stream and the record are others, and nothing above them is. Region servers deliver their
log over a socket; a call is answered when its rows are in a cut that is durable. A token names rows, which their owners
read again; the latest is found out by marks.

    vms/manager/hbase_backend.py         HBaseBackend
    vms/manager/hbase_attachment.py      Attachments.attach
    vms/ring/peer.py                     PeerServer
    vms/stream/hbase_sink.py             Sink
    vms/stream/hbase_source.py           HBaseSource.poll, HBaseSource.acknowledge
    vms/stream/hbase_regions.py          RegionGuard.verdict
    vms/stream/rereads.py                Rereads.ask
    vms/manager/hbase_latest.py          Latest.wait
    vms/store/hbase.py                   HBaseStore.mutate, HBaseStore.scan
    vms/ring/zookeeper.py                ZooKeeperCoordination.compare_and_set

**Over many rows.** A bulk job runs the same operations on Spark over a snapshot, part by part, while changes wait;
then the member takes over their state, brings it on by what waited, and the view is there.

    vms/cli/bulk.py                      build, resume
    vms/bulk/build.py                    Build.run
    vms/bulk/job.py                      Job.run
    vms/plan/stages.py                   Stages
    vms/maintenance/stage_run.py         StageRun.run
    vms/manager/bulk_files.py            write_state, read_state
    vms/maintenance/load_run.py          LoadedStore.changes, LoadingRun
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vms.manager.database import Database, View, connect

__all__ = ["Database", "View", "connect"]


def __getattr__(name: str) -> Any:
    """The API is imported when it is used: `import vms` alone, and `vms --help`, need none of it."""
    if name in __all__:
        import vms.manager.database as api

        return getattr(api, name)
    raise AttributeError(f"module 'vms' has no attribute {name!r}")

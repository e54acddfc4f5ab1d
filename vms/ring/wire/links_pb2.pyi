from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("number", "sender", "receiver", "payload", "more")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    number: int
    sender: str
    receiver: str
    payload: bytes
    more: bool
    def __init__(self, number: _Optional[int] = ..., sender: _Optional[str] = ..., receiver: _Optional[str] = ..., payload: _Optional[bytes] = ..., more: bool = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

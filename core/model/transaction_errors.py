"""The errors of jetgate's transactions API (`core.model.transactions`), numbered from 20001.

nats-server has no such requests, so the numbers are above all of its own. An error text names the
value in the request and the expected value.
"""

from core.errors import ApiError

_TABLE = {
    "NoLedger": (404, 20001, 'app "{app}" has no ledger here: it has to be opened first'),
    "RunSuperseded": (409, 20002, 'run "{run}" of app "{app}" was superseded by run "{newest}"'),
    "TokenSuperseded": (409, 20003, 'token {token} of app "{app}" was superseded by {newest}'),
    "TokenUnknown": (400, 20004, 'token {token} of app "{app}" was never given: {newest} is'),
    "BatchOld": (409, 20005, 'batch {batch} of app "{app}" is older than its last one, {last}'),
    "BatchUnfinished": (
        409,
        20006,
        'batch {batch} of app "{app}" has to wait: batch {last} is not finished',
    ),
    "Manifest": (400, 20007, "manifest invalid: {why}"),
    "BlockMissing": (404, 20008, 'attempt "{attempt}" has no block {seq} on "{subject}"'),
    "Checksum": (400, 20009, 'blocks of attempt "{attempt}" have checksum {found}, not {crc}'),
    "RowCount": (400, 20010, "the blocks of the manifest have {found} rows, not {rows}"),
    "Block": (400, 20011, 'row {row} of block {seq} of attempt "{attempt}" is no PUB or HPUB'),
    "Subject": (400, 20012, 'subject "{subject}" is not one of the stream'),
    "Header": (400, 20013, 'header "{header}" is not supported in a transaction'),
    "Target": (400, 20014, "{why}"),
    "Forgotten": (409, 20015, 'the ledger of app "{app}" was deleted'),
}


def transaction_error(name: str, /, **texts: object) -> ApiError:
    """Return the error called `name`, with its placeholders filled in from `texts`.

    Raises KeyError for an unknown name or a missing text: a bug of the caller.
    """
    code, err_code, text = _TABLE[name]
    return ApiError(code, err_code, text.format(**texts))

"""The HTTP handler that publishes dead letters to their original streams again.

A dead letter is a copy of a message that its consumer could not process. Reading dead letters needs
no handler: they are the messages of an ordinary stream.
"""

from starlette.responses import Response

from gateway.formats.models import RedriveRequest
from gateway.formats.validation import name, struct
from gateway.http.problems import bad_request
from gateway.http.responses import json_response
from gateway.requests.call import Call
from gateway.streams.redrive import Redriven, by_sequence, matching, redrive


async def redrive_dead_letters(call: Call) -> Response:
    """Publish the messages of dead letters to their original stream, then delete these letters."""
    dead = name(call.params["stream"], "stream")
    request = struct(RedriveRequest, await call.json_body())
    limit = call.gateway.settings.fetch_batch_max
    wanted = request.limit or call.gateway.settings.fetch_batch_default
    if wanted > limit or len(request.seqs) > limit:
        raise bad_request("bad-parameter", f"limit, seqs: more than {limit}")
    if request.seqs and (request.stream or request.consumer or request.limit):
        raise bad_request("bad-parameter", "seqs excludes all other members")
    names = [name(text, what) if text else "*" for text, what in _places(request)]
    info = await call.gateway.js.call(f"STREAM.INFO.{dead}")
    result = Redriven()
    if request.seqs:
        dead_letters = await by_sequence(call, dead, request.seqs, result)
    else:
        pattern = ".".join((dead, *names, ">"))
        dead_letters = await matching(call, dead, pattern, request.start_seq, wanted)
    await redrive(call, dead, info["created"], dead_letters, result)
    counts = {"redriven": result.count, "failed": result.failed, "last_seq": result.last_seq}
    return json_response(counts)


def _places(request: RedriveRequest) -> tuple[tuple[str, str], ...]:
    return (request.stream, "stream"), (request.consumer, "consumer")

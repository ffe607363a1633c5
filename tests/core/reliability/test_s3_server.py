"""The object store that the tests stand on keeps S3's promise: who makes a key, makes it alone."""

import threading
import urllib.error
import urllib.request

from core.conformance.backends import S3Server

AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=unchecked"
)


def status(url):
    """How the server answers to a request to make a key that must not be there yet."""
    headers = {"If-None-Match": "*", "Authorization": AUTHORIZATION}
    request = urllib.request.Request(url, data=b"mine", method="PUT", headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def at_once(n, work):
    """What `n` threads return that begin together."""
    begin, results = threading.Barrier(n), []

    def run():
        begin.wait()
        results.append(work())

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(results)


def test_of_many_who_make_a_key_at_once_exactly_one_is_told_that_it_did():
    with S3Server(pause_seconds=0.1) as server:
        url = f"{server.endpoint}/{server.BUCKET}/key"
        assert at_once(6, lambda: status(url)) == [200, *[412] * 5]

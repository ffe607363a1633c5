"""The storage layer: the only packages that import LanceDB."""

import os

from lance_context_core._util.extras import run_later

run_later("lance_namespace_urllib3_client")

# By default the engine uses all processors to build a full-text index, and reads wait meanwhile.
os.environ.setdefault("LANCE_FTS_NUM_SHARDS", str(max((os.cpu_count() or 1) // 2, 1)))

# By default the engine retries a commit that lost a race for 30 seconds, with doubling pauses: a
# writer without pauses starves all others. `storage.lance.contention` retries instead.
os.environ.setdefault("LANCE_COMMIT_RETRY_TIMEOUT_SECS", "0.001")

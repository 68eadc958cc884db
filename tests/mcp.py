#!/usr/bin/env python3
"""Runs the tools of the Model Context Protocol's own project against a real daemon: the conformance suite over HTTP, and the
inspector over HTTP and over standard input and output, in the revisions 2026-07-28 and 2025-11-25.

`vic` and `vicd` must be in PATH. npm installs the tools, at pinned versions, into a folder of this user in the folder for
temporary files. Scenarios that need the example tools of the suite's own server are left out; a check that fails for a reason
is in EXPECTED, and must fail.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(tempfile.gettempdir()) / f"vic-test-mcp-{os.getuid()}"
# Both tools need Node.js 22.
PACKAGES = ["@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12.0", "node@22.23.3"]

SCENARIOS = {
    "2025-11-25": ["server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection"],
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "resources-list",
        "caching",
        "http-header-validation",
        "sep-2164-resource-not-found",
        "server-sse-multiple-streams",
        "input-required-result-unsupported-methods",
        "dns-rebinding-protection",
    ],
}

EXAMPLE_TOOL = "needs a tool of the suite's own server"
EXPECTED = {
    "sep-2575-server-rejects-undeclared-capability": EXAMPLE_TOOL,
    "sep-2575-missing-capability-http-400": EXAMPLE_TOOL,
    "sep-2575-http-server-no-independent-requests-on-stream": EXAMPLE_TOOL,
    "sep-2575-server-no-log-without-loglevel": EXAMPLE_TOOL,
    "sep-2549-prompts-list-caching-hints": "vic has no prompts",
    "localhost-host-valid-accepted": "vic refuses every web page, also one of this machine",
}

MAX_LIST_BYTES = 6_144
MAX_LISTED = 8

problems = []


def check(name, passes, detail=""):
    print(f"{'ok' if passes else 'FAILED':8}{name}{'' if passes else f': {detail}'}", flush=True)
    if not passes:
        problems.append(name)


def install():
    HOME.mkdir(mode=0o700, exist_ok=True)
    if HOME.stat().st_uid != os.getuid():
        sys.exit(f"error: `{HOME}` belongs to another user\nhint: set TMPDIR to another folder")
    wanted = HOME / "installed"
    if not wanted.exists() or wanted.read_text() != "\n".join(PACKAGES):
        (HOME / "package.json").write_text('{"private": true}')
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES], cwd=HOME, check=True)
        wanted.write_text("\n".join(PACKAGES))
    return HOME / "node_modules/node/bin"


def run(command, environment, seconds=120):
    return subprocess.run(command, env=environment, cwd=HOME, capture_output=True, text=True, timeout=seconds)


def conformance(url, environment):
    """Runs each scenario, and compares the checks that fail with those that are expected to."""
    for revision, scenarios in SCENARIOS.items():
        for scenario in scenarios:
            with tempfile.TemporaryDirectory() as out:
                command = ["conformance", "server", "--url", url, "--scenario", scenario, "--spec-version", revision]
                ended = run(["node", f"node_modules/.bin/{command[0]}", *command[1:], "-o", out], environment)
                found = [it for path in Path(out).rglob("checks.json") for it in json.loads(path.read_text())]
            failed = {it["id"]: it.get("errorMessage", "") for it in found if it["status"] == "FAILURE"}
            wrong = {name: why for name, why in failed.items() if name not in EXPECTED}
            fixed = [it["id"] for it in found if it["status"] == "SUCCESS" and it["id"] in EXPECTED]
            detail = str(wrong or fixed or ended.stdout[-500:] + ended.stderr[-500:])
            passed = sum(it["status"] == "SUCCESS" for it in found)
            left_out = f", {len(failed)} expected to fail" if failed else ""
            check(f"conformance {revision} {scenario} ({passed} checks{left_out})", found and not wrong and not fixed, detail)


def inspector(target, era, environment):
    """Lists and calls tools with the inspector, in the older or the newer revision of the protocol."""
    name = f"inspector {'stdio' if 'mcp' in target else 'http'} {era}"

    def invoke(*arguments):
        command = ["node", "node_modules/.bin/mcp-inspector", "--cli", "--protocol-era", era, "--format", "json", "--quiet"]
        ended = run([*command, *target, *arguments], environment)
        if ended.returncode != 0:
            check(f"{name} {' '.join(arguments)}", False, ended.stdout[-800:] + ended.stderr[-800:])
            return {}
        answer = json.loads(ended.stdout)
        return answer.get("result", answer)

    tools = invoke("--method", "tools/list", "--strict").get("tools", [])
    size = len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())
    check(f"{name} tools/list ({len(tools)} tools, {size} bytes)", 0 < len(tools) <= MAX_LISTED and size <= MAX_LIST_BYTES, tools)
    asked = invoke("--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=hive")
    text = asked.get("content", [{}])[0].get("text", "")
    check(f"{name} tools/call search", "31 kg" in text and "structuredContent" not in asked and len(text) <= 1_500, asked)
    data = invoke("--method", "tools/call", "--tool-name", "status", "--tool-args-json", '{"structured": true}')
    check(f"{name} tools/call status", data.get("structuredContent", {}).get("index_ready") is True, data)
    resources = invoke("--method", "resources/list").get("resources", [])
    check(f"{name} resources/list", any("bees.md" in it["uri"] for it in resources), resources)


def main():
    node = install()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "files").mkdir()
        (folder / "files/bees.md").write_text("# Bees\n\nThe hive on the roof weighed 31 kg in March.\n")
        environment = {
            **os.environ,
            "PATH": f"{node}:{os.environ['PATH']}",
            "HOME": str(folder),
            "VIC_DATA_DIR": str(folder / "data"),
            "VIC_LISTEN": "127.0.0.1:0",
            # The conformance suite sends no key.
            "VIC_BRIDGE_AUTH": "none",
        }
        daemon = subprocess.Popen(["vicd"], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            listen = folder / "data/listen"
            for _ in range(600):
                if listen.exists() or daemon.poll() is not None:
                    break
                time.sleep(0.1)
            url = f"http://{listen.read_text().strip()}/mcp"
            subprocess.run(["vic", "index", str(folder / "files")], env=environment, check=True, stdout=subprocess.DEVNULL)
            conformance(url, environment)
            for era in ["legacy", "modern"]:
                inspector([url], era, environment)
                # The inspector gives a program only some variables of its own.
                own = [f"-e{name}={environment[name]}" for name in environment if name.startswith("VIC_")]
                inspector([*own, "vic", "mcp"], era, environment)
        finally:
            daemon.terminate()
            daemon.wait()
    print(f"{len(problems)} of the checks failed" if problems else "every check passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""web_page.py: measures the web page in headless Chromium.

  web_page.py first [FILES]      from `vic ui` on an empty data directory to the first found word in a folder of FILES files
                                 (1,000): seconds, with an index job that the page starts.
  web_page.py paint              first paint of 20 warm loads: median in ms.
  web_page.py typing [CHUNKS]    search as you type over at least CHUNKS chunks (100,000): every beginning of 40 questions, twice,
                                 p50 and p95 of the response in ms; then 10 questions typed into the page, from the key to the changed list.
  web_page.py preview            the first preview of a page of an A4 PDF, sizes and picture together: ms, of 9 PDFs.
  web_page.py scroll [FILES]     longest task while a list of FILES files (10,000) is scrolled to its end: ms.
  web_page.py memory             what five open pages cost the daemon: MiB.

Needs `vic` and `vicd` on the PATH, and `models/browser.sh`. Works in its own data directory and removes it.
"""
import json, os, random, shutil, statistics, subprocess, sys, tempfile, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLE = os.path.join(HERE, "..", "data")
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Vic:
    """A daemon with its own data directory."""

    def __init__(self, folder=None):
        self.directory = tempfile.mkdtemp(prefix="vic-page-")
        self.env = dict(os.environ, VIC_DATA_DIR=self.directory + "/data", VIC_LISTEN="127.0.0.1:0",
                        VIC_BRIDGE_RATE_LIMIT_PER_MIN="0")
        if folder:
            self.run("index", folder)

    def run(self, *arguments):
        # Output goes to a file: the daemon that a command starts would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            subprocess.run(["vic", *arguments], env=self.env, stdout=output, stderr=subprocess.DEVNULL, check=True)
            output.seek(0)
            return output.read()

    def status(self):
        return json.loads(self.run("status", "--format", "json"))

    def post(self, path, body):
        with open(self.env["VIC_DATA_DIR"] + "/key") as file:
            key = file.read().strip()
        request = urllib.request.Request(f"http://{self.status_listen()}{path}", data=json.dumps(body).encode(),
                                         headers={"authorization": "Bearer " + key, "content-type": "application/json"})
        with NO_PROXY.open(request) as response:
            return response.read()

    def status_listen(self):
        with open(self.env["VIC_DATA_DIR"] + "/listen") as file:
            return file.read().strip()

    def close(self):
        subprocess.run(["vic", "daemon", "stop"], env=self.env, capture_output=True)
        shutil.rmtree(self.directory, ignore_errors=True)


class Browser:
    """Headless Chromium over WebDriver."""

    def __init__(self):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            if "started successfully on port " in line:
                self.session = f"http://127.0.0.1:{line.strip().rstrip('.').rsplit(' ', 1)[1]}/session"
                break
        self.profile = tempfile.mkdtemp(prefix="vic-page-browser-")
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800",
                            f"--user-data-dir={self.profile}"]}
        opened = self.send("", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
        self.session += "/" + opened["sessionId"]

    def send(self, path, body):
        request = urllib.request.Request(self.session + path, data=json.dumps(body).encode(),
                                         headers={"content-type": "application/json"})
        with NO_PROXY.open(request) as response:
            return json.loads(response.read())["value"]

    def open(self, address):
        self.send("/url", {"url": address})

    def script(self, script, *arguments):
        return self.send("/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, text, pause_ms):
        """Types a text into the element that has the focus, with a pause after each key."""
        actions = [action for letter in text for action in ({"type": "keyDown", "value": letter}, {"type": "keyUp", "value": letter},
                                                            {"type": "pause", "duration": pause_ms})]
        self.send("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.script("return Boolean(" + condition + ");"):
            if time.monotonic() > end:
                sys.exit(f"not within {seconds} s: {condition}\n" + self.script("return document.body.innerText;"))
            time.sleep(0.02)

    def close(self):
        # Ends the browser too.
        NO_PROXY.open(urllib.request.Request(self.session, method="DELETE")).read()
        self.driver.kill()
        shutil.rmtree(self.profile, ignore_errors=True)


def texts(seed):
    """Yields paragraphs of words that a small language model would not repeat: syllables by rank."""
    draw = random.Random(seed)
    syllables = [c + v + e for c in "bdfgklmnprst" for v in "aeiou" for e in ("", "n", "r", "s")]
    words = ["".join(draw.choice(syllables) for _ in range(draw.choice((1, 2, 2, 3)))) for _ in range(20_000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    while True:
        yield " ".join(draw.choices(words, weights, k=110)) + "."


def write_files(folder, count, paragraphs=1):
    source = texts(7)
    for number in range(count):
        below = os.path.join(folder, f"d{number % 40:02}")
        os.makedirs(below, exist_ok=True)
        with open(os.path.join(below, f"note-{number:05}.txt"), "w") as file:
            file.write("\n\n".join(next(source) for _ in range(paragraphs)) + "\n")


def measure_first(count):
    folder = tempfile.mkdtemp(prefix="vic-page-files-")
    write_files(folder, count)
    with open(os.path.join(folder, "d00", "harbour.txt"), "w") as file:
        file.write("The harbour master keeps the key.\n")
    vic, browser = Vic(), Browser()
    begun = time.monotonic()
    browser.open(vic.run("ui", "--print").strip())
    browser.wait("location.pathname === '/ui/setup' && document.querySelector('main h1')")
    shown = time.monotonic() - begun
    post = "return fetch(arguments[0], {method: 'POST', headers: {'content-type': 'application/json', 'x-vic-csrf': arguments[2]}, body: JSON.stringify(arguments[1])}).then((it) => it.json());"
    token = browser.script("return localStorage.getItem('vic-session-token');")
    browser.script(post, "/v1/index/start", {"root": folder}, token)
    while not browser.script(post, "/v1/search", {"query": "harbour", "words_only": True}, token).get("hits"):
        time.sleep(0.05)
    print(f"from `vic ui` to the page {shown:.2f} s, to the first found word of {count + 1} files {time.monotonic() - begun:.2f} s")
    browser.close()
    vic.close()
    shutil.rmtree(folder)


def measure_paint():
    vic, browser = Vic(SAMPLE), Browser()
    browser.open(vic.run("ui", "--print").strip())
    browser.wait("document.querySelector('main h1')")
    paints, ready = [], []
    for _ in range(21):
        browser.open(f"http://{vic.status_listen()}/ui/")
        browser.wait("performance.getEntriesByName('first-contentful-paint').length && document.querySelector('#search-box')")
        paints.append(browser.script("return performance.getEntriesByName('first-contentful-paint')[0].startTime;"))
        ready.append(browser.script("return performance.getEntriesByType('resource').reduce((most, it) => Math.max(most, it.responseEnd), 0);"))
    print(f"first paint of {len(paints) - 1} warm loads: median {statistics.median(paints[1:]):.0f} ms, most {max(paints[1:]):.0f} ms;"
          f" everything loaded {statistics.median(ready[1:]):.0f} ms")
    browser.close()
    vic.close()


def measure_typing(chunks):
    folder = tempfile.mkdtemp(prefix="vic-page-files-")
    write_files(folder, chunks // 35, 40)
    vic = Vic()
    vic.run("index", "--no-wait", folder)
    while (status := vic.status())["coverage"]["pending"] or not status["chunks"]:
        time.sleep(2)
    # Chunks that are not in the keyword index yet are scanned by every search. The first searches bring them there.
    begun = time.monotonic()
    while (status := vic.status())["upkeep"]["unindexed_chunks"] > 20:
        vic.post("/v1/search", {"query": "harbour", "words_only": True})
        time.sleep(0.2)
    print(f"all chunks are in the keyword index {time.monotonic() - begun:.1f} s after the first search", flush=True)
    print(f"{status['chunks']} chunks in {status['coverage']['indexed']} files have words", flush=True)
    vic.run("pause")
    draw, source = random.Random(3), texts(7)
    questions = [" ".join(draw.sample(next(source).split(), 3)) for _ in range(40)]
    # The first search for a term reads its lists from the disk.
    for when in ("for the first time", "again"):
        times = []
        for question in questions:
            for end in range(2, len(question) + 1):
                begun = time.perf_counter()
                vic.post("/v1/search", {"query": question[:end], "words_only": True, "limit": 50})
                times.append((time.perf_counter() - begun) * 1e3)
        times.sort()
        print(f"{len(times)} beginnings of questions {when}: p50 {times[len(times) // 2]:.1f} ms,"
              f" p95 {times[len(times) * 95 // 100]:.1f} ms, most {times[-1]:.0f} ms")
    measure_keys(vic, [" ".join(draw.sample(next(source).split(), 3)) for _ in range(10)])
    vic.close()
    shutil.rmtree(folder)


KEY_PAUSE_MS = 150


def measure_keys(vic, questions):
    """Types questions into the page, and prints how long after a key the list of results changed."""
    browser = Browser()
    browser.open(vic.run("ui", "--print").strip())
    browser.wait("document.querySelector('#search-box')")
    browser.script("""window.keys = []; window.changes = [];
        document.addEventListener('input', () => window.keys.push(performance.now()), true);
        new MutationObserver(() => window.changes.push(performance.now())).observe(document.querySelector('.result-pane'),
          {subtree: true, childList: true, characterData: true});
        performance.setResourceTimingBufferSize(10000);""")
    for question in questions:
        browser.script("document.getElementById('search-box').focus(); document.getElementById('search-box').select();")
        browser.press(question, KEY_PAUSE_MS)
        time.sleep(0.5)
    waits = browser.script("""const searches = performance.getEntriesByType('resource').filter((it) => it.name.endsWith('/v1/search'));
        return window.keys.map((key, at) => {
          const next = window.keys[at + 1] ?? Infinity;
          const search = searches.find((it) => it.startTime >= key && it.startTime < next);
          const change = search && window.changes.find((it) => it >= search.responseEnd && it < next);
          return change ? change - key : null; });""")
    shown = sorted(it for it in waits if it is not None)
    print(f"{len(waits)} keys in the page, {KEY_PAUSE_MS} ms apart, {len(shown)} changed the list: p50 {shown[len(shown) // 2]:.0f} ms,"
          f" p95 {shown[len(shown) * 95 // 100]:.0f} ms after the key")
    browser.close()


def measure_preview():
    vic, times = Vic(SAMPLE), []
    files = [it["path"] for it in json.loads(vic.post("/v1/files", {"filters": {"extensions": [".pdf"]}}))["files"]]
    for path in files:
        begun = time.perf_counter()
        picture = json.loads(vic.post("/v1/page", {"path": path, "query": "the notice", "width": 1200}))["picture"]
        with open(vic.env["VIC_DATA_DIR"] + "/key") as file:
            request = urllib.request.Request(f"http://{vic.status_listen()}{picture}&width=1200",
                                             headers={"authorization": "Bearer " + file.read().strip()})
        NO_PROXY.open(request).read()
        times.append((time.perf_counter() - begun) * 1e3)
    print(f"first page of {len(times)} PDFs: with the start of the worker {times[0]:.0f} ms, median {statistics.median(times):.0f} ms,"
          f" most {max(times):.0f} ms")
    vic.close()


def measure_scroll(count):
    folder = tempfile.mkdtemp(prefix="vic-page-files-")
    for number in range(count):
        with open(os.path.join(folder, f"file-{number:05}.txt"), "w") as file:
            file.write(f"file {number}\n")
    vic = Vic()
    vic.run("index", "--metadata-only", folder)
    browser = Browser()
    browser.open(vic.run("ui", "--print").strip())
    browser.wait("document.querySelector('main h1')")
    browser.open(f"http://{vic.status_listen()}/ui/?ext=txt")
    browser.wait("document.querySelectorAll('#results [role=option]').length > 5")
    browser.script("""window.longTasks = []; new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map(
        (it) => it.duration))).observe({type: 'longtask'});
        let box = document.querySelector('#results'); while (box && box.scrollHeight <= box.clientHeight + 5) box = box.parentElement;
        window.scrolled = new Promise((done) => { let still = 0, last = -1; const step = () => { box.scrollTop += 900;
          still = box.scrollTop === last ? still + 1 : 0; last = box.scrollTop;
          still > 180 ? done() : requestAnimationFrame(step); }; step(); }).then(() => { window.scrollDone = true; });""")
    browser.wait("window.scrollDone", 300)
    tasks = browser.script("return window.longTasks;")
    last = browser.script("return [...document.querySelectorAll('#results [role=option]')].pop().getAttribute('aria-posinset');")
    print(f"scrolled to file {last} of {count}: {len(tasks)} tasks over 50 ms, the longest {max(tasks, default=0):.0f} ms")
    browser.close()
    vic.close()
    shutil.rmtree(folder)


def measure_memory():
    vic, browsers = Vic(SAMPLE), []
    vic.run("ask", "who signed the lease")
    time.sleep(5)
    before = vic.status()["rss_mib"]
    for number in range(5):
        browsers.append(Browser())
        browsers[-1].open(vic.run("ui", "--print").strip())
        browsers[-1].wait("document.querySelector('main h1')")
        view = ["/ui/status", "/ui/?q=notice%20lease"][number % 2]
        browsers[-1].open(f"http://{vic.status_listen()}{view}")
        browsers[-1].wait("document.querySelector('main h1')")
    time.sleep(10)
    print(f"five open pages: {vic.status()['rss_mib'] - before:.1f} MiB more of the daemon ({before:.0f} MiB)")
    for browser in browsers:
        browser.close()
    vic.close()


def main():
    command, number = (sys.argv[1:2] or [""])[0], (sys.argv[2:3] or [None])[0]
    measures = {"first": (measure_first, 1_000), "typing": (measure_typing, 100_000), "scroll": (measure_scroll, 10_000)}
    if command in measures:
        measure, usual = measures[command]
        return measure(int(number or usual))
    if command in ("paint", "preview", "memory"):
        return {"paint": measure_paint, "preview": measure_preview, "memory": measure_memory}[command]()
    sys.exit(__doc__)


main()

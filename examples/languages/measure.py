"""Writes devices of several languages to a server, for .ci/languages. Only the standard library is needed.

usage: measure.py writes BASE PID LANGUAGE      times and processor time of writes with their reconciles, as JSON
       measure.py during BASE LANGUAGE,... COMMAND...    writes of all languages until the command ends; says how many failed
       measure.py hostile BASE LANGUAGE,...     faults in each language, while the others are asked
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time

# Longest wait for one answer or one status, seconds.
PATIENCE = 60
# Time between two writes of a language during a command, seconds, and writes of each language after its end.
PAUSE = 0.05
AFTERWARDS = 10


class Client:
    """One connection to the server."""

    def __init__(self, base):
        self.connection = http.client.HTTPConnection(base, timeout=PATIENCE)

    def put(self, language, name, model="thermometer", interval=30):
        """Writes a device, and returns the code of the answer and its text."""
        body = json.dumps({"data": {"model": model, "addresses": ["Roof.Example", "cellar.example"], "interval": interval}})
        self.connection.request("PUT", f"/api/fleet_{language}/v1/device/{name}", body, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()


class Statuses(threading.Thread):
    """Follows the devices of a language, and knows the newest generation that its reconciler has seen of each."""

    def __init__(self, base, language):
        super().__init__(daemon=True)
        self.key = f"fleet-{language}/poll"
        self.seen = {}
        self.changed = threading.Condition()
        connection = http.client.HTTPConnection(base, timeout=PATIENCE)
        connection.request("GET", f"/api/fleet_{language}/v1/device?watch")
        self.answer = connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.start()

    def run(self):
        for line in self.answer:
            if not line.startswith(b"data:"):
                continue
            found = json.loads(line[5:])
            found = found.get("resource", found)
            status = found.get("status", {}).get(self.key)
            if status:
                with self.changed:
                    self.seen[found["id"]["name"]] = status["observedGeneration"]
                    self.changed.notify_all()

    def wait(self, generations):
        """Waits until the reconciler has seen all of these generations."""
        with self.changed:
            arrived = self.changed.wait_for(
                lambda: all(self.seen.get(name) == generation for name, generation in generations.items()), PATIENCE
            )
        missing = [name for name, generation in generations.items() if self.seen.get(name) != generation]
        assert arrived, f"{self.key}: no status of {missing[:3]} within {PATIENCE} s"


def processor_seconds(pid):
    """Processor time of a process until now."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def writes(base, pid, language, count, clients):
    """Writes with their reconciles: milliseconds of a write in the middle, and milliseconds of processor time of each."""
    statuses = Statuses(base, language)
    times, generations = [], {}

    def run(which):
        client = Client(base)
        for n in range(count // clients):
            name = f"w{clients}-{which}-{n}"
            began = time.perf_counter()
            status, text = client.put(language, name)
            times.append(time.perf_counter() - began)
            assert status == 200, text
            generations[name] = json.loads(text)["generation"]

    before = processor_seconds(pid)
    threads = [threading.Thread(target=run, args=(which,)) for which in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(generations) == count // clients * clients, "a write failed"
    statuses.wait(generations)
    used = processor_seconds(pid) - before
    return {"ms": round(sorted(times)[len(times) // 2] * 1000, 2), "processor_ms": round(used * 1000 / len(times), 2)}


def during(base, languages, command):
    """Writes of all languages, one after the other in each, until a while after a command ends. Returns the code to exit with."""
    ended = threading.Event()
    counts = {language: [0, 0] for language in languages}
    faults = []

    def run(language):
        client = Client(base)
        left = AFTERWARDS
        while left:
            # Leaves the compiler a part of the machine.
            left -= ended.wait(PAUSE)
            status, text = client.put(language, "reloaded", interval=10 + counts[language][0] % 50)
            counts[language][0] += 1
            if status != 200:
                counts[language][1] += 1
                faults.append(f"{language}: {status} {text.strip()}")

    threads = [threading.Thread(target=run, args=(language,)) for language in languages]
    for one in threads:
        one.start()
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    ended.set()
    for one in threads:
        one.join()
    total, failed = (sum(count[n] for count in counts.values()) for n in (0, 1))
    print(f"{total} writes, {failed} failed", *faults[:3], sep="\n  ")
    return code or (1 if failed or 0 in (count[0] for count in counts.values()) else 0)


def hostile(base, languages):
    """Faults in each language; the others answer meanwhile, and so does the same plugin afterwards."""
    for language in languages:
        for fault in ("loop", "memory", "trap"):
            answer = []
            one = threading.Thread(target=lambda: answer.extend(Client(base).put(language, "hostile", f"hostile-{fault}")))
            one.start()
            asked = 0
            others = [other for other in languages if other != language]
            while others and (one.is_alive() or asked == 0):
                for other in others:
                    status, text = Client(base).put(other, "neighbour", interval=10 + asked % 50)
                    assert status == 200, f"{other} answered {status} during a {fault} in {language}: {text}"
                asked += 1
            one.join()
            assert answer and answer[0] >= 429, f"{language}: a {fault} was answered {answer}"
            status, text = Client(base).put(language, "after", interval=20)
            assert status == 200, f"{language} answers {status} after a {fault}: {text}"
            detail = json.loads(answer[1]).get("detail", answer[1])
            print(f"{language}, {fault}: {answer[0]}, {asked} rounds of the others meanwhile: {detail[:160]}")


def main():
    command, base, *rest = sys.argv[1:]
    if command == "writes":
        pid, language = rest
        writes(base, pid, language, 8, 1)
        print(json.dumps({"one": writes(base, pid, language, 100, 1), "eight": writes(base, pid, language, 200, 8)}))
    elif command == "during":
        sys.exit(during(base, rest[0].split(","), rest[1:]))
    elif command == "hostile":
        hostile(base, rest[0].split(","))
    else:
        sys.exit(__doc__)


main()

"""The end that sends: COMMAND of `giusto link`."""

import json
import sys
import time

import peer


def main():
    link_start_s = peer.process_start_unix_s()
    args = peer.arguments(__doc__)
    browser = peer.Peer(args.mode, args.camera)
    try:
        offer = browser.call("offer", peer.address("GIUSTO_NEAR"), args.mode in peer.WITHOUT_FEC, args.max_rate)
        peer.wait_for(args.dir / "far.ready", 120)
        if args.start is not None:
            # The far end checks the path as soon as it has the offer.
            wait_until(link_start_s + args.start - 1.0)
        peer.put(args.dir / "offer.sdp", offer)
        answer = peer.wait_for(args.dir / "answer.sdp", 20)
        if args.start is not None:
            wait_until(link_start_s + args.start)
        call_s = time.time() - link_start_s
        peer.put(args.dir / "call.json", json.dumps({"link_start_unix_s": link_start_s, "call_start_s": call_s}))
        browser.call("accept", answer)
        browser.record(args.dir / "near.jsonl", link_start_s, call_s + args.seconds)
    finally:
        browser.close()
    # `giusto link` ends the far end with this one.
    peer.wait_for(args.dir / "far.done", 20)


def wait_until(unix_s):
    early_s = unix_s - time.time()
    if early_s < 0:
        sys.exit(f"the browsers were ready {-early_s:.1f} s too late: let the machine do less, or --start later")
    time.sleep(early_s)


main()

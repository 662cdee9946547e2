"""The end that sends: COMMAND of `giusto link`."""

import sys
import time

import peer


def main():
    start_unix_s = peer.process_start_unix_s()
    args = peer.arguments(__doc__)
    peer.put(args.dir / "start", repr(start_unix_s))

    def wait_until(link_s):
        early_s = link_s - (time.time() - start_unix_s)
        if early_s < 0:
            sys.exit(f"not ready {link_s:.0f} s after the start of the link, but {-early_s:.1f} s later: let the machine do less")
        time.sleep(early_s)

    browser = peer.Peer(args.mode, args.camera)
    try:
        offer = browser.call("offer", peer.address("GIUSTO_NEAR"), args.audio)
        peer.wait_for(args.dir / "far.ready", 60)
        # The far end begins with its checks of connectivity as soon as it has the offer.
        wait_until(peer.CALL_START_S - 1.0)
        peer.put(args.dir / "offer.sdp", offer)
        answer = peer.wait_for(args.dir / "answer.sdp", 10)
        wait_until(peer.CALL_START_S)
        browser.call("accept", answer)
        browser.record(args.dir / "near.jsonl", start_unix_s, peer.CALL_START_S + args.seconds)
    finally:
        browser.close()
    # `giusto link` ends the far end with this one.
    peer.wait_for(args.dir / "far.done", 10)


main()

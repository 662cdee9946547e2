"""The end that receives: `giusto link --far`."""

import peer


def main():
    args = peer.arguments(__doc__)
    browser = peer.Peer(args.mode)
    try:
        peer.put(args.dir / "far.ready", "")
        offer = peer.wait_for(args.dir / "offer.sdp", 60)
        peer.put(args.dir / "answer.sdp", browser.call("answer", peer.address("GIUSTO_FAR"), offer))
        start_unix_s = float(peer.wait_for(args.dir / "start", 60))
        browser.record(args.dir / "far.jsonl", start_unix_s, peer.CALL_START_S + args.seconds)
    finally:
        browser.close()
    peer.put(args.dir / "far.done", "")


main()

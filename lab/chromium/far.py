"""The end that receives: `giusto link --far`."""

import json

import peer


def main():
    args = peer.arguments(__doc__)
    browser = peer.Peer(args.mode)
    try:
        peer.put(args.dir / "far.ready", "")
        offer = peer.wait_for(args.dir / "offer.sdp", 120)
        peer.put(args.dir / "answer.sdp", browser.call("answer", peer.address("GIUSTO_FAR"), offer))
        call = json.loads(peer.wait_for(args.dir / "call.json", 20))
        browser.record(args.dir / "far.jsonl", call["link_start_unix_s"], call["call_start_s"] + args.seconds)
    finally:
        browser.close()
    peer.put(args.dir / "far.done", "")


main()

//! What is refused before it begins: one line that names the flag, the value or the file, and nothing is written.

use std::{
    fs,
    net::{TcpListener, UdpSocket},
    os::unix::fs::PermissionsExt as _,
};

use crate::common::{Folder, key_file, run, text};

/// Commands, and what their error says. `~` is a space within an argument.
const ALWAYS: &str = r#"
    send 127.0.0.1:9 --rate 0 => above 0 bit/s
    send 127.0.0.1:9 --rate fast => "fast"
    send 127.0.0.1:9 --rate 1 --size 60000 => longest of 24 h
    send 127.0.0.1:9 --size 39 => at least 40 B to hold the giusto header, found 39 B
    send 127.0.0.1:9 --size 11 --rtp => at least 12 B to hold the RTP header, found 11 B
    send 127.0.0.1:9 --size 65508 => at most 65507 B, found 65508 B
    send 127.0.0.1:9 --duration 10~m => needs one of the units
    send 127.0.0.1:9 --duration 0s => '--duration <TIME>': must be above 0 s, found "0s"
    send 127.0.0.1:9 --count 0 => '--count <N>': must be a whole number, 1 or more, found "0"
    send 127.0.0.1:9 --bytes 0 => '--bytes <BYTES>': must be above 0 B, found "0"
    send 127.0.0.1:9 --strategy gird => grid
    send 127.0.0.1:9 --mode fast => precise, balanced, eco
    send 127.0.0.1:9 --profile g723 => g729
    send 127.0.0.1:9 --profile g711 --ptime 7ms => ptime
    send 127.0.0.1:9 --profile g711 --ptime 7 => ptime
    send 127.0.0.1:9 --payload uniform:9 => uniform
    send 127.0.0.1:9 --payload zipf:3 => choice:200*3,1200*1, or trace:FILE
    send 127.0.0.1:9 --payload trace:backwards.csv => backwards.csv:2
    send 127.0.0.1:9 --payload trace:small.csv => --payload trace:small.csv: size: must be from 40 B, the header, to 65507 B, found 33 B
    send 127.0.0.1:9 --payload-file none => none
    send 127.0.0.1:9 --payload-file empty => no bytes to send
    send 127.0.0.1:9 --payload-file keys --size 40 => --size: must be above 40 B
    send 127.0.0.1:9 --script part.toml => --script part.toml:1: a part without size: add size = "172 B"
    send 127.0.0.1:9 --max-burst-rate 1k => 1 kbit/s
    send 127.0.0.1:9 --burst 0 => 0
    send 127.0.0.1:9 --burst 4 --strategy at0 => --burst: has an effect only with --strategy grid
    send 127.0.0.1:9 --catch-up skip --strategy send-sleep => --catch-up: has an effect only with --strategy grid
    send 127.0.0.1:9 --spin => --spin: has an effect only with strategies that sleep for a time
    cbr --spin --strategy grid,send-compare => --spin: has an effect
    send 127.0.0.1:9 --rate max --burst 4 => --burst: has an effect only at a rate, which neither max nor a trace of times is: leave it out
    send 127.0.0.1:9 --rate max --strategy dt1 => --strategy: has an effect only at a rate
    send 127.0.0.1:9 --payload trace:times.csv --catch-up skip => --catch-up: has an effect only at a rate
    cbr --rate max --burst 4 => --burst: has an effect only at a rate
    send 127.0.0.1:9 --dscp 64 => 64
    send 127.0.0.1:9 --duratoin 1s => --duration
    send 127.0.0.1:9 --interval 0.1 => must be at least
    send 127.0.0.1:9 -5 => expected HOST[:PORT] or a flag, found the negative number "-5"
    send 127.0.0.1: => HOST:PORT
    send 127.0.0.1:0 => HOST:PORT
    send -5 => HOST[:PORT] or a flag, found the negative number "-5"
    send 127.0.0.1:9 -Rt -1 => must not be negative, found "-1"
    send 127.0.0.1:1 -p 2 => --port: "127.0.0.1:1" has another port
    send no-such-host.invalid:5005 => no-such-host.invalid
    send fe80::7 => a link-local address needs its interface, as in fe80::1%eth0
    send 255.255.255.255 => broadcast is not supported
    send 127.0.0.1 --interface nonsense7 => cannot use the interface nonsense7: No such device
    send 127.0.0.1 --source ::1 => --source ::1: 127.0.0.1 has no IPv6 address
    send 127.0.0.1 --source 192.0.2.77 => cannot bind to 192.0.2.77:0: Cannot assign requested address (os error 99): give --source an address of this machine
    send 127.0.0.1 --flow-label 1 => --flow-label: only IPv6 has flow labels
    send ::1 --flow-label 0x100000 => must be a number of at most 20 bits
    send h --timestamps ptp => error: --timestamps: not supported with giusto streams
    send h --reverse --dscp 46 => error: the argument '--reverse' cannot be used with '--dscp <0..63>'
    send h --reverse --rtp => '--reverse' cannot be used with '--rtp'
    send h --bidir --one-way => '--bidir' cannot be used with '--one-way'
    send h --one-way --key-file k => error: the argument '--one-way' cannot be used with '--key-file <FILE>'
    send h --protocol iperf3 -R --mode eco => error: the argument '--reverse' cannot be used with '--mode <MODE>'
    send h --protocol stamp -R => --reverse: not supported with --protocol stamp
    send 127.0.0.1 --protocol stamp --size 46 => --size: a STAMP packet must have 44 bytes
    send 127.0.0.1 --protocol stamp --rtp => --rtp: not supported with --protocol stamp
    send 127.0.0.1 --protocol stamp -i 0.5 --verbose => --verbose
    send 127.0.0.1 --protocol iperf3 --rtp => --rtp
    send 127.0.0.1 --protocol iperf3 --payload uniform:100-200 => --payload
    send 127.0.0.1 --protocol iperf3 --streams 129 => --streams
    send 127.0.0.1 --protocol iperf3 --size 15 => --size
    send 127.0.0.1 --protocol iperf3 --mtu-discovery => --mtu-discovery: not supported with --protocol iperf3
    send 127.0.0.1 --protocol iperf3 --source 192.0.2.77 => cannot bind to 192.0.2.77:0:
    send 127.0.0.1 --protocol iperf3 --source ::1 => --source ::1: 127.0.0.1 has no IPv6 address
    send 127.0.0.1 --protocol tcp --ecn ect1 => --ecn: not supported with --protocol tcp
    send 127.0.0.1 --protocol tcp --interface nonsense7 => cannot use the interface nonsense7: No such device
    send 127.0.0.1 --protocol tcp --flow-label 1 => --flow-label: only IPv6 has flow labels
    send 239.1.1.1 --protocol iperf3 => 239.1.1.1:5201 is a multicast group, which is not supported:
    send 239.1.1.1 --protocol stamp => 239.1.1.1:862 is a multicast group, which is not supported:
    send 239.1.1.1 --reverse => --reverse: 239.1.1.1:5005 is a multicast group
    send [ff15::1]:5 --bidir => --bidir: [ff15::1]:5 is a multicast group
    send 239.1.1.1 --key-file keys => --key-file: 239.1.1.1:5005 is a multicast group
    send 127.0.0.1:9 --one-way -t 1 --live=BUSY --no-open => choose another port
    recv 127.0.0.1:BUSY => choose another port
    recv 127.0.0.1:BUSY => Address already in use
    recv 127.0.0.1:BUSY --accept iperf3 => Address already in use
    recv 127.0.0.1:BUSY --accept stamp => Address already in use
    recv 127.0.0.1:0 --metrics 127.0.0.1:BUSY => --metrics 127.0.0.1:BUSY
    recv 127.0.0.1:0 --live=BUSY --no-open => --live: 127.0.0.1:BUSY:
    recv --no-open => --live
    recv 127.0.0.1:0 --idle 0.01 => '--idle <TIME>': must be at least 100 ms, found 10 ms
    recv 127.0.0.1:0 --interval 0.01 => must be at least
    recv 127.0.0.1:0 --max-rate 0 => must be above 0 bit/s
    recv 127.0.0.1:0 --interface nonsense7 => cannot use the interface nonsense7: No such device
    recv 192.0.2.77:5005 => listen on an address of this machine, or on all: give only a port
    recv 192.0.2.77:5005 --accept tcp => listen on an address of this machine, or on all: give only a port
    recv 99999 => expected HOST or HOST:PORT
    recv -1 => found the negative number "-1"
    recv --allow 192.0.2.0/33 => found "192.0.2.0/33"
    recv --accept stamp --idle 3 => error: --idle: not supported with --accept stamp
    recv --accept stamp --once => --once: not supported with --accept stamp
    recv --stateless => error: --stateless: not supported with giusto streams: leave it out, or use --accept stamp
    recv --max-unannounced 3 => error: the following required arguments were not provided: --accept <KIND>
    recv --accept iperf3 --max-streams-per-host 3 => error: --max-streams-per-host: not supported
    recv --accept iperf3 --metrics 9105 => --metrics
    recv --accept iperf3 --max-bytes 1000 => --max-bytes
    recv 239.1.1.1:5201 --accept iperf3 => 239.1.1.1:5201 is a multicast group, which is not supported:
    recv 239.1.1.1 --accept stamp => is a multicast group, which is not supported:
    recv 127.0.0.1:0 --metrics 239.1.1.1:9105 => 239.1.1.1:9105 is a multicast group, which is not supported:
    recv 239.1.1.1 --key-file keys => --key-file: 239.1.1.1 is a multicast group
    recv 127.0.0.1 --ssm 192.0.2.7 => --ssm 192.0.2.7: 127.0.0.1 is no multicast group
    recv 232.1.1.1 --ssm ::1 => --ssm ::1: it must be of the same address family
    recv 239.1.1.1 --interface nonsense7 => cannot use the interface nonsense7
    cbr --rate 1M,0 => above 0 bit/s
    cbr --size 20 => at least 40 B
    cbr --duration 0s => must be above 0 s, found "0s"
    cbr -3 => a flag, found the negative number "-3"
    cbr --against iperf3 --against-path /bin/true => is not iperf3
    cbr --layer ip --against iperf3 => --layer: must be payload with --against, found ip
    cbr --csv --json => --json
    send 127.0.0.1:9 --json-lines --json => --json
    recv 127.0.0.1:0 --csv --json-lines => --json-lines
    cbr --quick --live=BUSY --no-open => Address already in use
    call => HOST
    call 127.0.0.1:1 --video 0 => needs --audio
    call 127.0.0.1:1 --controller vegas => vegas
    call 127.0.0.1:1 --controller scream:d00 --feedback remb => feedback
    call 127.0.0.1:1 --max-rate 0 => above 0
    call 127.0.0.1:1 --insecure --key-file keys => --key-file
    call 127.0.0.1:1 --srtp --insecure => --insecure
    call 127.0.0.1 --source ::1 => --source ::1: 127.0.0.1 has no IPv6 address
    call [::ffff:239.1.1.1]:5008 => is a multicast group, which is not supported:
    call 127.0.0.1:9 --media FILM --reverse => --reverse
    call 127.0.0.1:9 --media FILM --encoder trace => --encoder
    call 127.0.0.1:9 --media FILM --encoder-command cat => --encoder-command
    call 127.0.0.1:9 --media FILM --video 2 => --video 2
    call 127.0.0.1:9 --media s.toml => neither IVF nor H.264
    call 127.0.0.1:9 --frame-rate 15 => --frame-rate
    call 127.0.0.1:9 --save a.ivf => --save
    call 127.0.0.1:9 --reverse --save a.ivf => --codec
    call 127.0.0.1:9 --reverse --codec vp8 --save a.h264 => .ivf
    call 127.0.0.1:9 --codec vp8 => --reverse
    call 127.0.0.1:9 --reverse --voice a.wav => name the file there
    call 127.0.0.1:1 --voice missing.wav => missing.wav
    call --listen 127.0.0.1:0 --save a.mp4 => .ivf
    call --listen 127.0.0.1:0 --bidir => --bidir
    call --listen 127.0.0.1:BUSY => Address already in use
    call --listen 127.0.0.1:0 --live=BUSY --no-open => Address already in use
    call --listen 192.0.2.1:5004 => choose another address
    call --listen 239.1.1.1 => is a multicast group, which is not supported:
    call --browser --once => --once: not supported with --browser: leave it out, or use --listen
    call --browser --audio => --audio: not supported with --browser
    call --browser --key-file keys => --key-file: not supported with --browser
    call --browser --scenario s.toml => --scenario: not supported with --browser
    call --browser 192.0.2.1 => unexpected "192.0.2.1": leave it out
    sim s.toml --set duration=10 => duration
    sim codeel => error: codeel: no such file or built-in scenario: did you mean "codel"?
    sim none => error: none: cannot be read (No such file or directory (os error 2)): check the name
    sweep none => error: none: cannot be read (No such file or directory (os error 2)): check the name
    compare none => error: none: cannot be read (No such file or directory (os error 2)): check the name
    explore none => error: none: cannot be read (No such file or directory (os error 2)): check the name
    replay none => error: none: cannot be read (No such file or directory (os error 2)): check the name
    merge none => error: none: cannot be read (No such file or directory (os error 2)): check the name
    link none -- true => error: none: cannot be read (No such file or directory (os error 2)): check the name
    call 127.0.0.1 --scenario none => error: none: cannot be read (No such file or directory (os error 2)): check the name
    call 127.0.0.1 --media none => error: --media none: cannot be read (No such file or directory (os error 2)): check the name
    call 127.0.0.1 --key-file none => error: --key-file none: cannot be read (No such file or directory (os error 2)): check the name
    send 127.0.0.1 --key-file none => error: --key-file none: cannot be read (No such file or directory (os error 2)): check the name
    recv 127.0.0.1:0 --key-file none => error: --key-file none: cannot be read (No such file or directory (os error 2)): check the name
    send 127.0.0.1 --payload trace:none => error: --payload trace:none: cannot be read (No such file or directory (os error 2)): check the name
    send 127.0.0.1 --profile g711 --wav none => error: --wav none: cannot be read (No such file or directory (os error 2)): check the name
    reproduce scream-lte --quick --resume none => error: --resume none: cannot be read (No such file or directory (os error 2)): check the name
    explore --no-open s.toml --set wire.rate=fast => rate: "fast"
    explore --no-open s.toml --controller magic => magic
    explore --no-open s.toml --controller tempo => no flow has a controller that can be chosen
    explore s.toml --out missing/x.html => error: --out missing/x.html
    explore --no-open s.toml --seeds 51 => from 1 to 50
    explore --port BUSY --no-open => Address already in use
    link s.toml => COMMAND
    link s.toml --relay 5000 => expected LISTEN=TARGET
    link s.toml --relay 5000=127.0.0.1:6000 -- true => cannot be used with
    link s.toml --relay 5000=127.0.0.1 => 127.0.0.1
    link s.toml --relay 5000=127.0.0.1:5000 => a relay listens at the target 127.0.0.1:5000
    link s.toml --relay 0.0.0.0:5000=127.0.0.1:5001 --relay 5001=127.0.0.1:5000 => a relay listens at the target 127.0.0.1:5001
    link s.toml --from nowhere --relay 0=127.0.0.1:6000 => unknown node "nowhere": use one of here, there
    link s.toml --mtu 100 -- true => from 576 to 65535
    link s.toml --from here --to there --relay 127.0.0.1:BUSY=127.0.0.1:9 => Address already in use
    lte => giusto lte needs a command: one of traces
    lte traces --out o --speed 300 => error: speed must be 0 to 250 km/h, found 300 km/h
    lte traces --out o --speed -3 => must not be negative, found "-3"
    lte traces --out o --speed 3,3.0 --position edge => down-3kmh-4M-edge: two traces have this name
    lte traces --out o --load 40M => error: load of a cell down must be 0 to 12 Mbit/s, found 40 Mbit/s
    lte traces --out o --duration 1h => error: duration must be 1 to 600 s, found 3600 s
    lte traces --out o --position roof => error: invalid value 'roof' for '--position <POSITION>' [possible values: centre, middle, edge, path]
    benchmark --seed SEED_OF_NOTHING => error: the seed is empty: give any text, such as "2026-11"
    benchmark --seed a,b,a => error: seed "a" is named twice: leave one out
    benchmark --seed a,b --quick => error: --quick runs one seed, found 2: give one, or --scenarios instead of --quick
    benchmark --seed a,b --replay 1 --controller nada => error: --replay runs a scenario of one seed, found 2: name one
    benchmark --controller bound:causal => error: bound:causal is judged in every benchmark: name controllers, or a run with --replay
    benchmark --shard 3/2 --out o => "3/2" is not a shard: write i/n with i from 1 to n
    benchmark --shard 1/2 => --out
    benchmark --controller tcp => tcp
    benchmark --scenarios 0 => --scenarios
    benchmark --quick --scenarios 5 => --quick
    benchmark --replay 5 => --controller
    benchmark --replay 5 --controller nada,fixed => --replay runs one controller, found 2
    benchmark --recordings /nowhere => error: /nowhere: cannot be read
    benchmark --recordings /nowhere --seed a => --seed
    benchmark --scale 2 => --recordings
    benchmark --scenarios 1 --controller typo.toml => typo.toml:3: scream:v2 has no constant "delya-target": did you mean "delay-target"?
    sim s.toml --controller typo.toml => typo.toml:3: scream:v2 has no constant "delya-target": did you mean "delay-target"?
    call 127.0.0.1 --controller typo.toml => typo.toml:3: scream:v2 has no constant "delya-target": did you mean "delay-target"?
    call 127.0.0.1 --reverse --controller many.toml => longer than the 40 bytes that can be sent to the far end: set fewer constants
    sim s.toml --controller nada => it has no media flow for nada
    sim first --controller nada --flow x => no media flow is called "x"
    tune nada => pip install '.[tune]' in a clone
    paper media => pip install '.[plot]' in a clone
    reproduce something => firebind
    reproduce rfc8867 --controller gcc:libwebrct => gcc:libwebrtc+giusto
    frobnicate => frobnicate
    smi => unknown command "smi": did you mean `giusto sim`?
    help sedn => did you mean `giusto send`?
    demo --out /proc/demo.html => /proc/demo.html
    demo --out /no/such/place/demo.html => /no/such/place
    demo --out folder => folder
    cbr --out /proc/cbr.html => /proc/cbr.html
    cbr --out folder => folder
    sim first --out /proc => /proc
    sim first --out /proc/new => /proc/new: cannot make the folder
    sim first --out /dev/null => /dev/null
    sim first --out keys => this is a file: give a folder
    sim s.toml --out s.toml => this file is in use twice
    sim s.toml --out folder/../s.toml => this file is in use twice
    sim s.toml --trace csv => --out
    compare compare --controller gcc:libwebrct => unknown controller "gcc:libwebrct": did you mean "gcc:libwebrtc"? expected one of fixed, gcc:libwebrtc
    compare compare --controller fixed,fixed => fixed is given twice: leave one out
    compare compare --flow noise => error: --flow noise: no such flow is of kind media: known are
    compare s.toml => error: s: no flow has a controller that can be chosen: compare a scenario with a flow of kind media
    compare s.toml --set wire.rate=fast => error: s.toml: --set wire.rate=fast
    compare compare --out /proc => /proc
    sweep first --out /proc => /proc
    reproduce shaper --out /proc/x.html => /proc/x.html
    reproduce rrtcc --markdown /proc/x.md => /proc/x.md
    reproduce rfc8867 --out /proc => /proc
    reproduce scream-lte --out /proc/x.html => /proc/x.html
    man /proc/man => /proc/man
"#;

/// The same of commands that need the feature `browser`.
const BROWSER: &str = r#"
    call 127.0.0.1:1 --srtp => add --fingerprint
    call 127.0.0.1:1 --srtp --fingerprint 12:34 => not a fingerprint
    call --browser --repair flexfec --media a.ivf => --repair
    call --browser => --browser needs --media
    call --browser --save a.ivf --media a.ivf => --save: nothing comes from the browser: add --reverse or --bidir
    call --browser --codec vp9 --media FILM => --codec: only with --reverse
    call --browser --reverse --codec av2 => expected vp8, h264, vp9 or av1, found "av2"
    call --browser --reverse --codec vp9 --save a.h264 => --save: the file has no room for VP9: use a name that ends in .ivf or .mkv
    call --browser --reverse --controller tempo => gcc:remb or gcc:rmcat-02 can limit it, found tempo
    call --browser --reverse --save a.txt => a.txt: unknown kind of file
    call --browser --bidir --media FILM --save a.h264 => in both directions the video is VP8
    call --browser --media missing.ivf => missing.ivf
    call --browser --media s.toml => s.toml
    call --browser --listen 192.0.2.1:9 --media FILM => 192.0.2.1:9
"#;

/// The same of a build without this feature.
const NO_BROWSER: &str = "
    call 127.0.0.1:1 --srtp => --features browser
";

#[test]
fn wrong_usage_is_one_line_and_exit_status_2() {
    // A port that is in use for UDP and for TCP.
    let (_udp, tcp) = std::iter::repeat_with(|| UdpSocket::bind("127.0.0.1:0").unwrap())
        .find_map(|udp| TcpListener::bind(udp.local_addr().unwrap()).ok().map(|tcp| (udp, tcp)))
        .unwrap();
    let busy = tcp.local_addr().unwrap().port().to_string();
    let film = format!("{}/../session/tests/data/tiny.ivf", env!("CARGO_MANIFEST_DIR"));
    let many = "algorithm = \"scream:v2\"\ndelay-target = \"15 ms\"\nbeta-loss = 0.71\nhead-room = 1.55\n";
    let folder = Folder::with(crate::simulate::GOOD);
    for (name, content) in [
        ("keys", &*key_file("11")),
        ("empty", ""),
        ("times.csv", "0.1,100\n0.3,100\n"),
        ("backwards.csv", "0.3,100\n0.1,100\n"),
        ("small.csv", "100\n33\n"),
        ("part.toml", "[[part]]\nwho = \"near\"\ntime = \"1 s\"\n"),
        ("typo.toml", "# a comment\nalgorithm = \"scream:v2\"\ndelya-target = \"15 ms\"\n"),
        ("many.toml", many),
    ] {
        fs::write(folder.path(name), content).unwrap();
    }
    fs::set_permissions(folder.path("keys"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(folder.path("folder")).unwrap();
    let before = folder.others();
    let tables = [ALWAYS, if cfg!(feature = "browser") { BROWSER } else { NO_BROWSER }].concat();
    for line in tables.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = line.replace("BUSY", &busy).replace("FILM", &film);
        let (command, expected) = line.split_once(" =>").unwrap();
        let args: Vec<String> = command.split(' ').map(|word| word.replace('~', " ")).collect();
        let args: Vec<&str> =
            args.iter().map(|word| if word == "SEED_OF_NOTHING" { "" } else { word }).collect();
        let output = folder.run(&args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {message}");
        assert!(message.contains(expected.trim()), "{command}: {message}");
        // Apart from a tip, and from what `giusto link` says first of each direction.
        let beside = ["  tip: ", "here to there: ", "there to here: "];
        let lines = message.lines().filter(|line| !beside.iter().any(|start| line.starts_with(start)));
        assert!(
            lines.clone().count() == 1 && lines.clone().all(|line| line.starts_with("error: ")),
            "{command}: {message}"
        );
        assert!(output.stdout.is_empty(), "{command}");
        assert_eq!(folder.others(), before, "{command}");
    }
}

#[test]
fn without_a_command_one_is_named() {
    let output = run(&[]);
    let message = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{message}");
    assert!(message.contains("giusto demo"), "{message}");
}

#[test]
fn wrong_numbers_get_a_message_about_the_value() {
    let all = "send 127.0.0.1:9: --rate -b --size -l --duration -t --count --bytes -n --streams -P --port --dscp --seed \
         --ptime --interval -i --packets-per-cycle --max-burst-rate --realtime --burst
        recv 127.0.0.1:0: --idle --duration --max-streams --max-streams-per-host --max-rate --port --interval --metrics
        cbr: --rate --size --duration --repeat
        sim first: --seed --why
        compare compare: --seed
        sweep first: --jobs --seeds";
    for line in all.lines() {
        let (command, flags) = line.trim().split_once(": ").unwrap();
        for flag in flags.split_whitespace() {
            for value in ["-5", "-5M", "-0.5s", "NaN", "-inf", "inf", "1e400", "99999999999999999999999"] {
                let args: Vec<&str> = command.split(' ').chain([flag, value]).collect();
                let output = run(&args);
                let message = text(&output.stderr);
                // As many bytes as anyone may name are not too many: the system refuses them.
                assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
                assert!(message.contains(value.trim_start_matches('-')), "{args:?}: {message}");
                assert!(!message.contains("unexpected argument"), "{args:?}: {message}");
                assert_eq!(message.trim_end().lines().count(), 1, "{args:?}: {message}");
            }
        }
    }
}

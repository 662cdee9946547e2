// Package giusto lets pion use the congestion controllers of libgiusto: an Estimator is a cc.BandwidthEstimator.
//
// It is built by cgo against an installed libgiusto, which pkg-config finds (crates/capi/install.sh).
package giusto

/*
#cgo pkg-config: giusto
#include <giusto.h>
#include <stdlib.h>
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
)

const transportCCURI = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"

// catchUp bounds what a pacer that was woken late sends at once.
const catchUp = 10 * time.Millisecond

// ErrClosed is returned by an Estimator after Close.
var ErrClosed = errors.New("giusto: the estimator is closed")

// Config of an Estimator. Rates are bit/s with all headers; 0 stands for the defaults of libgiusto.
type Config struct {
	// Controller by name, such as "tempo" or "nada+kappa=0.4".
	Controller      string
	Min, Start, Max int
	// Overhead is what IP, UDP and SRTP add to an RTP packet, in bytes. 0: 28, IPv4 and UDP.
	Overhead int
	// Padding writes one RTP packet of about so many bytes to a stream of its own, whose payload the receiver ignores. It is called while a
	// probe lacks media, by the pacer, after the first packet of media: it must not wait. Without it, a probe is left out unless enough media wait, and rates grow slower.
	Padding func(bytes int)
}

// Estimator is a cc.BandwidthEstimator with a pacer. Its methods may be called at the same time.
type Estimator struct {
	overhead int
	padding  func(bytes int)
	origin   time.Time
	burst    time.Duration
	maxAge   time.Duration
	wake     chan struct{}
	done     chan struct{}
	ended    chan struct{}

	lock       sync.Mutex
	controller *C.GiustoController
	target     C.GiustoTarget
	onChange   func(bitrate int)
	queue      []waiting
	queueBytes int
	nextSend   time.Duration
	probe      *probe
	packetSize float64 // mean of the packets, RTP alone
	discarded  uint64
	invalid    uint64
	// The session begins with the first packet: before it there may be no connection.
	begun bool
}

type waiting struct {
	header     rtp.Header
	payload    []byte
	attributes interceptor.Attributes
	writer     interceptor.RTPWriter
	extension  uint8
	since      time.Duration
}

type probe struct {
	cluster  C.uint32_t
	rate     uint64
	packets  int
	duration time.Duration
	since    time.Duration
	begin    time.Duration // of its first packet; 0 before it
}

var _ cc.BandwidthEstimator = (*Estimator)(nil)

// Factory makes an Estimator for each connection: an argument of cc.NewInterceptor.
func Factory(config Config) cc.BandwidthEstimatorFactory {
	return func() (cc.BandwidthEstimator, error) { return NewEstimator(config) }
}

// NewEstimator makes an Estimator, which Close ends. The error says which names and rates are accepted.
func NewEstimator(config Config) (*Estimator, error) {
	if version := C.giusto_abi_version(); version != C.GIUSTO_ABI_VERSION {
		return nil, fmt.Errorf("giusto: libgiusto has ABI %d, this package needs %d", version, C.GIUSTO_ABI_VERSION)
	}
	if config.Min < 0 || config.Start < 0 || config.Max < 0 || config.Overhead < 0 {
		return nil, fmt.Errorf("giusto: rates and overhead must not be below 0, found %+v", config)
	}
	e := &Estimator{
		overhead: config.Overhead, padding: config.Padding, origin: time.Now(), packetSize: 1200,
		wake: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{}),
	}
	if e.overhead == 0 {
		e.overhead = 28
	}
	name := C.CString(config.Controller)
	defer C.free(unsafe.Pointer(name))
	var limits C.GiustoConfig
	limits.size = C.sizeof_GiustoConfig
	limits.min_bps, limits.start_bps, limits.max_bps = C.uint64_t(config.Min), C.uint64_t(config.Start), C.uint64_t(config.Max)
	// pion's sender reports have the system's time, in the format of RFC 3550 section 4: seconds since 1900.
	limits.ntp_at_zero = C.uint64_t(uint64(e.origin.Unix()+2_208_988_800)<<32 | uint64(e.origin.Nanosecond())<<32/1_000_000_000)
	var text [512]C.char
	if C.giusto_new(name, &limits, &e.controller, &text[0], C.size_t(len(text))) != C.GIUSTO_OK {
		return nil, fmt.Errorf("giusto: %s", C.GoString(&text[0]))
	}
	var requirements C.GiustoRequirements
	requirements.size = C.sizeof_GiustoRequirements
	C.giusto_requirements(e.controller, &requirements)
	e.burst = time.Duration(requirements.burst_ns)
	if requirements.discard_after_ns != C.GIUSTO_NEVER {
		e.maxAge = time.Duration(requirements.discard_after_ns)
	}
	e.follow()
	go e.run()
	return e, nil
}

// AddStream returns the writer of a stream's packets: the pacer. Their transport-wide numbers are those of the header extension, so the
// interceptor that sets it must be registered after this one.
func (e *Estimator) AddStream(info *interceptor.StreamInfo, writer interceptor.RTPWriter) interceptor.RTPWriter {
	var extension uint8
	for _, found := range info.RTPHeaderExtensions {
		if found.URI == transportCCURI {
			extension = uint8(found.ID)
		}
	}
	return interceptor.RTPWriterFunc(func(header *rtp.Header, payload []byte, attributes interceptor.Attributes) (int, error) {
		e.lock.Lock()
		defer e.lock.Unlock()
		if e.controller == nil {
			return 0, ErrClosed
		}
		size := header.MarshalSize() + len(payload)
		e.queue = append(e.queue, waiting{
			header: header.Clone(), payload: append([]byte(nil), payload...), attributes: attributes,
			writer: writer, extension: extension, since: time.Since(e.origin),
		})
		e.queueBytes += size
		e.packetSize += (float64(size) - e.packetSize) / 64
		e.notify()
		return size, nil
	})
}

// WriteRTCP handles feedback of the receiver. What is invalid is counted, not returned: an error would end pion's reader.
func (e *Estimator) WriteRTCP(packets []rtcp.Packet, _ interceptor.Attributes) error {
	var datagram []byte
	for _, packet := range packets {
		switch packet.(type) {
		case *rtcp.TransportLayerCC, *rtcp.CCFeedbackReport, *rtcp.ReceiverEstimatedMaximumBitrate, *rtcp.ReceiverReport, *rtcp.SenderReport:
			if bytes, err := packet.Marshal(); err == nil {
				datagram = append(datagram, bytes...)
			}
		}
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.controller == nil {
		return ErrClosed
	}
	if len(datagram) > 0 {
		status := C.giusto_on_rtcp(e.controller, e.now(), (*C.uint8_t)(unsafe.Pointer(&datagram[0])), C.size_t(len(datagram)))
		if status < 0 {
			e.invalid++
		}
		e.follow()
		e.notify()
	}
	return nil
}

// GetTargetBitrate returns the rate for the encoders, in bit/s of RTP packets: without the overhead.
func (e *Estimator) GetTargetBitrate() int {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.bitrate()
}

func (e *Estimator) bitrate() int {
	return int(float64(e.target.media_bps) * e.packetSize / (e.packetSize + float64(e.overhead)))
}

// OnTargetBitrateChange sets the function that is called, in a goroutine, when the target changes.
func (e *Estimator) OnTargetBitrateChange(f func(bitrate int)) {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.onChange = f
}

// GetStats returns the target, what waits and is in flight, and the latest decision with its cause.
func (e *Estimator) GetStats() map[string]any {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.controller == nil {
		return map[string]any{}
	}
	totals := e.totals()
	decision := map[string]any{}
	if text := C.giusto_decision(e.controller); text != nil {
		_ = json.Unmarshal([]byte(C.GoString(text)), &decision)
	}
	return map[string]any{
		"targetBitrate": int(e.target.media_bps), "pacingBitrate": int(e.target.pacing_bps), "queuedBytes": e.queueBytes,
		"inFlightBytes": int(totals.in_flight_bytes), "lostPackets": int(totals.lost_packets), "discardedPackets": int(e.discarded),
		"invalidFeedback": int(e.invalid), "decision": decision,
	}
}

// Close ends the pacer and frees the controller. Packets that wait are discarded.
func (e *Estimator) Close() error {
	e.lock.Lock()
	if e.controller == nil {
		e.lock.Unlock()
		return nil
	}
	C.giusto_free(e.controller)
	e.controller = nil
	close(e.done)
	e.lock.Unlock()
	<-e.ended
	return nil
}

func (e *Estimator) now() C.uint64_t { return C.uint64_t(time.Since(e.origin)) }

func (e *Estimator) totals() C.GiustoTotals {
	var totals C.GiustoTotals
	totals.size = C.sizeof_GiustoTotals
	C.giusto_totals(e.controller, &totals)
	return totals
}

func (e *Estimator) notify() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// follow reads the controller, as after each call of it.
func (e *Estimator) follow() {
	before := e.bitrate()
	e.target.size = C.sizeof_GiustoTarget
	C.giusto_target(e.controller, &e.target)
	if after := e.bitrate(); after != before && e.onChange != nil {
		go e.onChange(after)
	}
	for {
		var next C.GiustoProbe
		next.size = C.sizeof_GiustoProbe
		if C.giusto_next_probe(e.controller, &next) != C.GIUSTO_OK {
			return
		}
		if e.probe == nil {
			e.probe = &probe{since: time.Since(e.origin), cluster: next.cluster, rate: uint64(next.rate_bps), packets: int(next.packets), duration: time.Duration(next.duration_ns)}
		}
	}
}

// run paces the queue and calls the controller at its timeouts.
func (e *Estimator) run() {
	defer close(e.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-e.done:
			return
		case <-e.wake:
		case <-timer.C:
		}
		timer.Reset(e.step())
	}
}

// step does what is due and returns the time until there is more.
func (e *Estimator) step() time.Duration {
	e.lock.Lock()
	defer e.lock.Unlock()
	for e.controller != nil {
		if !e.begun && len(e.queue) == 0 {
			return time.Hour
		}
		now := time.Since(e.origin)
		if due := C.giusto_next_timeout(e.controller); !e.begun || due <= C.uint64_t(now) {
			e.begun = true
			var oldest time.Duration
			if len(e.queue) > 0 {
				oldest = now - e.queue[0].since
			}
			C.giusto_on_timeout(e.controller, C.uint64_t(now), C.uint64_t(e.queueBytes), C.uint64_t(oldest))
			e.follow()
		}
		for e.maxAge > 0 && len(e.queue) > 0 && now-e.queue[0].since > e.maxAge {
			e.pop()
			e.discarded++
		}
		wait := time.Hour
		if due := C.giusto_next_timeout(e.controller); due != C.GIUSTO_NEVER {
			wait = max(0, time.Duration(due)-now)
		}
		if len(e.queue) == 0 && e.probe != nil && e.padding != nil {
			e.lock.Unlock()
			e.padding(1200 - e.overhead)
			e.lock.Lock()
			if len(e.queue) == 0 {
				e.probe = nil
			}
			continue
		}
		if len(e.queue) == 0 {
			return wait
		}
		size := e.queue[0].header.MarshalSize() + len(e.queue[0].payload) + e.overhead
		if e.target.window_bytes != C.GIUSTO_NEVER && e.totals().in_flight_bytes+C.uint64_t(size) > e.target.window_bytes {
			// Feedback wakes us; so does the oldest packet's age.
			return min(wait, 50*time.Millisecond)
		}
		if early := e.nextSend - now - e.burst; early > 0 {
			return min(wait, early)
		}
		e.send(now, size)
	}
	return time.Hour
}

func (e *Estimator) pop() waiting {
	first := e.queue[0]
	e.queue[0] = waiting{}
	e.queue = e.queue[1:]
	e.queueBytes -= first.header.MarshalSize() + len(first.payload)
	return first
}

func (e *Estimator) send(now time.Duration, size int) {
	if e.probe != nil && e.probe.begin == 0 {
		if e.padding != nil || len(e.queue) >= e.probe.packets {
			e.probe.begin = now
			e.nextSend = now
		} else if now-e.probe.since > time.Second {
			e.probe = nil
		}
	}
	first := e.pop()
	rate := uint64(e.target.pacing_bps)
	var packet C.GiustoPacket
	packet.size = C.sizeof_GiustoPacket
	packet.bytes = C.uint64_t(size)
	packet.flags = C.GIUSTO_HAS_RTP
	packet.ssrc, packet.rtp_sequence = C.uint32_t(first.header.SSRC), C.uint16_t(first.header.SequenceNumber)
	var extension rtp.TransportCCExtension
	if bytes := first.header.GetExtension(first.extension); first.extension != 0 && extension.Unmarshal(bytes) == nil {
		packet.flags |= C.GIUSTO_HAS_TRANSPORT_SEQUENCE
		packet.transport_sequence = C.uint16_t(extension.TransportSequence)
	}
	if e.probe != nil && e.probe.begin > 0 {
		packet.flags |= C.GIUSTO_HAS_PROBE
		packet.probe = e.probe.cluster
		rate = max(rate, e.probe.rate)
		e.probe.packets--
		// One whose media do not last is given up.
		if spent := now - e.probe.begin; (e.probe.packets <= 0 && spent >= e.probe.duration) || spent > 10*e.probe.duration {
			e.probe = nil
		}
	}
	if rate > 0 {
		e.nextSend = max(e.nextSend, now-catchUp) + time.Duration(uint64(size)*8*uint64(time.Second)/rate)
	}
	C.giusto_on_sent(e.controller, C.uint64_t(now), &packet, nil)
	e.follow()
	// The writers of pion do not call back.
	_, _ = first.writer.Write(&first.header, first.payload, first.attributes)
}

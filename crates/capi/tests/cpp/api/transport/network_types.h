// A stand-in of libwebrtc's header of this name: the types and fields that giusto_webrtc.h uses, written anew from their names. It is no part of
// libwebrtc and serves tests alone. With STANDIN_M128 it has the fields of that version.
#ifndef STANDIN_NETWORK_TYPES_H
#define STANDIN_NETWORK_TYPES_H

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace webrtc {

template <typename Self>
class Quantity {
 public:
  static constexpr Self PlusInfinity() { return Self(std::numeric_limits<std::int64_t>::max()); }
  static constexpr Self MinusInfinity() { return Self(std::numeric_limits<std::int64_t>::min()); }
  static constexpr Self Zero() { return Self(0); }
  constexpr bool IsFinite() const {
    return value_ != std::numeric_limits<std::int64_t>::max() && value_ != std::numeric_limits<std::int64_t>::min();
  }
  constexpr bool IsPlusInfinity() const { return value_ == std::numeric_limits<std::int64_t>::max(); }
  constexpr bool operator==(const Quantity& other) const { return value_ == other.value_; }

 protected:
  constexpr explicit Quantity(std::int64_t value) : value_(value) {}
  std::int64_t value_;
};

class TimeDelta : public Quantity<TimeDelta> {
 public:
  static constexpr TimeDelta Seconds(std::int64_t value) { return TimeDelta(value * 1'000'000); }
  static constexpr TimeDelta Millis(std::int64_t value) { return TimeDelta(value * 1000); }
  static constexpr TimeDelta Micros(std::int64_t value) { return TimeDelta(value); }
  constexpr std::int64_t us() const { return value_; }

 private:
  friend class Quantity<TimeDelta>;
  using Quantity::Quantity;
};

class Timestamp : public Quantity<Timestamp> {
 public:
  static constexpr Timestamp Micros(std::int64_t value) { return Timestamp(value); }
  constexpr std::int64_t us() const { return value_; }
  constexpr TimeDelta operator-(Timestamp other) const { return TimeDelta::Micros(value_ - other.value_); }

 private:
  friend class Quantity<Timestamp>;
  using Quantity::Quantity;
};

class DataSize : public Quantity<DataSize> {
 public:
  static constexpr DataSize Bytes(std::int64_t value) { return DataSize(value); }
  static constexpr DataSize Infinity() { return PlusInfinity(); }
  constexpr std::int64_t bytes() const { return value_; }

 private:
  friend class Quantity<DataSize>;
  using Quantity::Quantity;
};

class DataRate : public Quantity<DataRate> {
 public:
  static constexpr DataRate BitsPerSec(std::int64_t value) { return DataRate(value); }
  static constexpr DataRate Infinity() { return PlusInfinity(); }
  constexpr std::int64_t bps() const { return value_; }

 private:
  friend class Quantity<DataRate>;
  using Quantity::Quantity;
};

constexpr DataSize operator*(DataRate rate, TimeDelta time) { return DataSize::Bytes(rate.bps() * time.us() / 8'000'000); }

struct StreamsConfig {
  std::optional<bool> requests_alr_probing;
};

struct TargetRateConstraints {
  Timestamp at_time = Timestamp::PlusInfinity();
  std::optional<DataRate> min_data_rate, max_data_rate, starting_rate;
};

struct NetworkAvailability {
  Timestamp at_time = Timestamp::PlusInfinity();
  bool network_available = false;
};

struct NetworkRouteChange {
  Timestamp at_time = Timestamp::PlusInfinity();
  TargetRateConstraints constraints;
#ifndef STANDIN_M128
  bool restart_bwe = true;
#endif
};

struct PacedPacketInfo {
  static constexpr int kNotAProbe = -1;
  int probe_cluster_id = kNotAProbe;
};

struct SentPacket {
  Timestamp send_time = Timestamp::PlusInfinity();
  DataSize size = DataSize::Zero();
  PacedPacketInfo pacing_info;
  std::int64_t sequence_number = 0;
};

struct ReceivedPacket {};
struct NetworkStateEstimate {};

struct RemoteBitrateReport {
  Timestamp receive_time = Timestamp::PlusInfinity();
  DataRate bandwidth = DataRate::Infinity();
};

struct RoundTripTimeUpdate {
  Timestamp receive_time = Timestamp::PlusInfinity();
  TimeDelta round_trip_time = TimeDelta::PlusInfinity();
  bool smoothed = false;
};

struct TransportLossReport {
  Timestamp receive_time = Timestamp::PlusInfinity();
  std::uint64_t packets_lost_delta = 0, packets_received_delta = 0;
};

#ifndef STANDIN_M128
enum class EcnMarking { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };
#endif

struct PacketResult {
  SentPacket sent_packet;
  Timestamp receive_time = Timestamp::PlusInfinity();
#ifndef STANDIN_M128
  EcnMarking ecn = EcnMarking::kNotEct;
#endif
};

struct TransportPacketsFeedback {
  Timestamp feedback_time = Timestamp::PlusInfinity();
  DataSize data_in_flight = DataSize::Zero();
  std::vector<PacketResult> packet_feedbacks;
};

struct NetworkEstimate {
  Timestamp at_time = Timestamp::PlusInfinity();
  DataRate bandwidth = DataRate::Infinity();
  TimeDelta round_trip_time = TimeDelta::PlusInfinity();
#ifdef STANDIN_M128
  TimeDelta bwe_period = TimeDelta::PlusInfinity();
#endif
  float loss_rate_ratio = 0;
};

struct PacerConfig {
#ifndef STANDIN_M128
  static PacerConfig Create(Timestamp at, DataRate send, DataRate pad, TimeDelta window) {
    const TimeDelta over = window.us() == 0 ? TimeDelta::Seconds(1) : window;
    return {at, send * over, window, pad * over};
  }
#endif
  Timestamp at_time = Timestamp::PlusInfinity();
  DataSize data_window = DataSize::Infinity();
  TimeDelta time_window = TimeDelta::PlusInfinity();
  DataSize pad_window = DataSize::Zero();
  std::int64_t RateBps() const {
    return data_window.bytes() * 8'000'000 / (time_window.us() == 0 ? 1'000'000 : time_window.us());
  }
};

struct ProbeClusterConfig {
  Timestamp at_time = Timestamp::PlusInfinity();
  DataRate target_data_rate = DataRate::Zero();
  TimeDelta target_duration = TimeDelta::Zero(), min_probe_delta = TimeDelta::Millis(2);
  std::int32_t target_probe_count = 0, id = 0;
};

struct TargetTransferRate {
  Timestamp at_time = Timestamp::PlusInfinity();
  NetworkEstimate network_estimate;
  DataRate target_rate = DataRate::Zero();
};

struct NetworkControlUpdate {
  std::optional<DataSize> congestion_window;
  std::optional<PacerConfig> pacer_config;
  std::vector<ProbeClusterConfig> probe_cluster_configs;
  std::optional<TargetTransferRate> target_rate;
};

struct ProcessInterval {
  Timestamp at_time = Timestamp::PlusInfinity();
  std::optional<DataSize> pacer_queue;
};

}  // namespace webrtc

#endif  // STANDIN_NETWORK_TYPES_H

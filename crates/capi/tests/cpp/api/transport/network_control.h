// A stand-in of libwebrtc's header of this name: the functions that a controller must have, written anew from their names. It is no part of
// libwebrtc and serves tests alone.
#ifndef STANDIN_NETWORK_CONTROL_H
#define STANDIN_NETWORK_CONTROL_H

#include <memory>

#include "api/transport/network_types.h"

namespace webrtc {

class Environment {};

struct NetworkControllerConfig {
  explicit NetworkControllerConfig(const Environment& env) : env(env) {}
  Environment env;
  TargetRateConstraints constraints;
  StreamsConfig stream_based_config;
};

class NetworkControllerInterface {
 public:
  virtual ~NetworkControllerInterface() = default;
  [[nodiscard]] virtual NetworkControlUpdate OnNetworkAvailability(NetworkAvailability) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnNetworkRouteChange(NetworkRouteChange) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnProcessInterval(ProcessInterval) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnRemoteBitrateReport(RemoteBitrateReport) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnRoundTripTimeUpdate(RoundTripTimeUpdate) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnSentPacket(SentPacket) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnReceivedPacket(ReceivedPacket) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnStreamsConfig(StreamsConfig) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnTargetRateConstraints(TargetRateConstraints) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnTransportLossReport(TransportLossReport) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnTransportPacketsFeedback(TransportPacketsFeedback) = 0;
  [[nodiscard]] virtual NetworkControlUpdate OnNetworkStateEstimate(NetworkStateEstimate) = 0;
#ifndef STANDIN_M128
  virtual bool SupportsEcnAdaptation() const { return false; }
#endif
};

class NetworkControllerFactoryInterface {
 public:
  virtual ~NetworkControllerFactoryInterface() = default;
  virtual std::unique_ptr<NetworkControllerInterface> Create(NetworkControllerConfig config) = 0;
  virtual TimeDelta GetProcessInterval() const = 0;
};

}  // namespace webrtc

#endif  // STANDIN_NETWORK_CONTROL_H

//! SINR per stream, mutual information, block error rate.

package carrier

// Budget is the share of the carrier's memory, in bytes, that the tunnels and names
// of all networks may take together: a third of DefaultHardLimit. The rest is for
// packets in progress, for garbage, and for networks that take more than their Cost: up to twice as much, where others were looked at while
// they were made.
const Budget = DefaultHardLimit / 3

// The carrier's memory that a network takes at most while it is idle, in bytes,
// measured and rounded up: its device with its queues and its DNS, each peer with its
// own queues and goroutines, each range that is allowed, in IPv4 and IPv6.
const (
	networkCost = 576 << 10
	peerCost    = 32 << 10
	rangeCost   = 2 << 10
)

// Cost is how much of the Budget a network takes that has so many peers, and so many
// allowed ranges of all of them together, in bytes.
func Cost(peers, ranges int) uint64 {
	return networkCost + uint64(peers)*peerCost + uint64(ranges)*rangeCost
}

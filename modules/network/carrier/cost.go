package carrier

// Budget is what the tunnels and names of all networks may take together of the
// carrier's memory, in bytes: half of DefaultHardLimit. The other half is for the
// packets in hand, for what the collector hasn't taken yet, and for what a network
// takes beyond its Cost.
const Budget = DefaultHardLimit / 2

// What a network takes of the carrier's memory at most while it is idle, in bytes,
// measured and rounded up: its device with its queues and its DNS, each peer with its
// own queues and goroutines, each range that is allowed, in IPv4 and IPv6.
const (
	networkCost = 512 << 10
	peerCost    = 24 << 10
	rangeCost   = 2 << 10
)

// Cost is how much of the Budget a network takes that has so many peers, and so many
// allowed ranges of all of them together, in bytes.
func Cost(peers, ranges int) uint64 {
	return networkCost + uint64(peers)*peerCost + uint64(ranges)*rangeCost
}

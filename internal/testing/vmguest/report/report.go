// Package report has what the guest answers to GET /boot: the program in the guest and the tests share it. It holds
// no behaviour.
package report

// Boot is the state of a guest.
type Boot struct {
	Hostname    string
	Interfaces  []Interface
	CommandLine string
	// UptimeSeconds is since the kernel's start; ReadySeconds when HTTP was served first.
	UptimeSeconds, ReadySeconds float64
	MemoryMiB                   int
	CPUs                        int
	// Boots counts the boots with this data disk, this one included; 0 without a data disk, or if it begins with
	// something else than zeros and the counter.
	Boots int
	// UserDataSHA256 is in hexadecimal; empty without a config disk or user data.
	UserDataSHA256 string
	// ConfigFiles are the SHA-256 of the files that the kernel sees on the config disk, by name, in hexadecimal.
	ConfigFiles map[string]string
	// ConfigError is why the config disk wasn't applied; empty if it was.
	ConfigError string
	Disks       []Disk
}

// Interface is an interface but for the loopback.
type Interface struct {
	Name, MAC string
	MTU       int
	// Addresses are with the length of their network; Gateways those of default routes.
	Addresses, Gateways []string
}

// Disk is a virtio-blk disk.
type Disk struct {
	Name string
	// Serial is empty if the disk has none.
	Serial   string
	Bytes    int64
	ReadOnly bool
	// Discard and Zero are the most bytes that one request discards, or zeroes without data; 0 if the disk takes none.
	Discard, Zero int64
	// Config is the config disk; Data the disk that /disk is.
	Config, Data bool
}

// CounterBytes are the first bytes of a data disk: the guest counts its boots there.
const CounterBytes = 4096

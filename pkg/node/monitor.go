package node

import "context"

// The monitor module's address on the bus.
const (
	MonitorModule = "monitor"
	SystemObject  = "system"
	SystemVersion = "0.1.0"
	HostObject    = "host"
	HostVersion   = "0.1.0"
)

// CPUUse is one reading of the node's processors.
type CPUUse struct {
	// Percent is the share in use since the last reading, 0 to 100, over all cores.
	Percent float64
	Cores   uint64
}

// MemoryUse is one reading of the node's memory in bytes.
type MemoryUse struct {
	Total     uint64
	Available uint64
	Used      uint64
}

// DiskUse is one reading of a block device, counted since boot.
type DiskUse struct {
	Name       string
	ReadBytes  uint64
	WriteBytes uint64
	ReadCount  uint64
	WriteCount uint64
}

// DisksUse is one reading of all block devices.
type DisksUse []DiskUse

// NicUse is one reading of a network interface, counted since boot.
type NicUse struct {
	Name        string
	BytesSent   uint64
	BytesRecv   uint64
	PacketsSent uint64
	PacketsRecv uint64
	Errors      uint64
}

// NicsUse is one reading of all network interfaces.
type NicsUse []NicUse

// SystemMonitor streams readings every two seconds. Bus: monitor.system@0.1.0.
type SystemMonitor interface {
	CPU(ctx context.Context) <-chan CPUUse
	Memory(ctx context.Context) <-chan MemoryUse
	Disks(ctx context.Context) <-chan DisksUse
	Nics(ctx context.Context) <-chan NicsUse
}

// HostInfo describes the machine.
type HostInfo struct {
	Hostname string `yaml:"hostname" protobuf:"1"`
	Kernel   string `yaml:"kernel" protobuf:"2"`
	OS       string `yaml:"os" protobuf:"3"`
	// Cores is the number of logical processors, Memory in bytes.
	Cores  uint64 `yaml:"cores" protobuf:"4"`
	Memory uint64 `yaml:"memory" protobuf:"5"`
	// Uptime and BootTime are in seconds; BootTime since 1970.
	Uptime   uint64 `yaml:"uptime" protobuf:"6"`
	BootTime uint64 `yaml:"boot_time" protobuf:"7"`
	// Addresses are the machine's own global unicast addresses, without those
	// of loopback and of croft's interfaces.
	Addresses []string `yaml:"addresses" protobuf:"8"`
}

// HostMonitor describes the machine. Bus: monitor.host@0.1.0.
type HostMonitor interface {
	Info() (HostInfo, error)
}

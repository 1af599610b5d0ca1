package node

import (
	"context"
	"time"
)

// Versions of the monitor module's objects whose events have the layout of the
// seed's nodes of 2020. A version's layout never changes: more or other members
// mean another version.
const (
	SeedSystemVersion = "0.0.1"
	SeedHostVersion   = "0.0.1"
)

// SeedMemory is one reading of memory: the members of gopsutil's VirtualMemoryStat
// of 2019, in its order. All are bytes, but UsedPercent and the counts of huge pages.
type SeedMemory struct {
	Total          uint64
	Available      uint64
	Used           uint64
	UsedPercent    float64
	Free           uint64
	Active         uint64
	Inactive       uint64
	Wired          uint64
	Laundry        uint64
	Buffers        uint64
	Cached         uint64
	Writeback      uint64
	Dirty          uint64
	WritebackTmp   uint64
	Shared         uint64
	Slab           uint64
	SReclaimable   uint64
	SUnreclaim     uint64
	PageTables     uint64
	SwapCached     uint64
	CommitLimit    uint64
	CommittedAS    uint64
	HighTotal      uint64
	HighFree       uint64
	LowTotal       uint64
	LowFree        uint64
	SwapTotal      uint64
	SwapFree       uint64
	Mapped         uint64
	VMallocTotal   uint64
	VMallocUsed    uint64
	VMallocChunk   uint64
	HugePagesTotal uint64
	HugePagesFree  uint64
	HugePageSize   uint64
}

// SeedCPU is one reading of one processor: seconds since boot by activity, and the
// share in use since the last reading, 0 to 100. Waiting for disks counts as use
// here.
type SeedCPU struct {
	CPU       string
	User      float64
	System    float64
	Idle      float64
	Nice      float64
	Iowait    float64
	Irq       float64
	Softirq   float64
	Steal     float64
	Guest     float64
	GuestNice float64
	Percent   float64
	Time      time.Time
}

// SeedCPUs is one reading of all processors.
type SeedCPUs []SeedCPU

// SeedDisk is one reading of a block device, counted since boot. Times are in
// milliseconds.
type SeedDisk struct {
	ReadCount        uint64
	MergedReadCount  uint64
	WriteCount       uint64
	MergedWriteCount uint64
	ReadBytes        uint64
	WriteBytes       uint64
	ReadTime         uint64
	WriteTime        uint64
	IopsInProgress   uint64
	IoTime           uint64
	WeightedIO       uint64
	Name             string
	SerialNumber     string
	Label            string
	Time             time.Time
}

// SeedDisks is one reading of all block devices, by name.
type SeedDisks map[string]SeedDisk

// SeedNic is one reading of a network interface, counted since boot; the rates are
// bytes a second since the last reading.
type SeedNic struct {
	Name        string
	BytesSent   uint64
	BytesRecv   uint64
	PacketsSent uint64
	PacketsRecv uint64
	Errin       uint64
	Errout      uint64
	Dropin      uint64
	Dropout     uint64
	Fifoin      uint64
	Fifoout     uint64
	RateOut     uint64
	RateIn      uint64
}

// SeedNics is one reading of all network interfaces.
type SeedNics []SeedNic

// SeedSystemMonitor streams readings every two seconds, in the seed's layout. Bus:
// monitor.system@0.0.1.
type SeedSystemMonitor interface {
	CPU(ctx context.Context) <-chan SeedCPUs
	Memory(ctx context.Context) <-chan SeedMemory
	Disks(ctx context.Context) <-chan SeedDisks
	Nics(ctx context.Context) <-chan SeedNics
}

// SeedHostMonitor streams the time since boot every two seconds, as a whole number of
// nanoseconds. Bus: monitor.host@0.0.1.
type SeedHostMonitor interface {
	Uptime(ctx context.Context) <-chan time.Duration
}

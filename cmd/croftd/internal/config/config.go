// Package config is what an operator may set: one table of settings, read from
// flags, the environment, a file and defaults, in that order. It reads and
// checks; it touches nothing of the node.
package config

import (
	"net/netip"
	"time"

	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/workload"
)

// Config is what is in force. Sizes are in bytes.
type Config struct {
	// StateDir holds what must survive a reboot, RunDir what must not.
	StateDir string
	RunDir   string

	// Explorer is the explorer's base URL, FarmID the farm that the node joins.
	Explorer string
	FarmID   uint64
	// TrustExplorerClock says that data may be removed by the explorer's time alone.
	TrustExplorerClock bool

	// Bus is the URL of a redis server when modules are processes of their
	// own; empty when the whole node is one process. BusListen is where the
	// bus of that one process is open to others; empty for nowhere.
	Bus       string
	BusListen string

	// PoolSize is the size of the pool on a loop file; it is not made when
	// Disks names whole disks. WipeDisks may be used though something is on them.
	PoolSize  uint64
	PoolType  workload.DeviceType
	Disks     []Disk
	WipeDisks []string

	// NetworkUplinks is the range between the node and its users' networks,
	// PublicIP6Range what public_ip6 addresses are from (the zero Prefix: none),
	// DNSServers those that answer users' networks (none: /etc/resolv.conf's).
	NetworkUplinks netip.Prefix
	PublicIP6Range netip.Prefix
	DNSServers     []netip.AddrPort

	Containers Containers
	ZDB        ZDB

	// Reserve is what the node keeps for itself, UserLimit what one user may have.
	Reserve Amounts
	// Overcommit is how often each core that isn't kept is promised.
	Overcommit uint64
	UserLimit  Limit
	// MaxRecords is how many reservations of all users are remembered; 0 is no limit.
	MaxRecords uint64

	AllowUsers []string
	DebugUsers []string
	// AllowPrivate is where tenants may go although it isn't public.
	AllowPrivate      []dial.Exception
	MaxDuration       time.Duration
	AcceptSignatureV1 bool
	Grace             time.Duration

	// DoorListen is where users speak to the node, empty for nowhere; DoorFile
	// gets the address in use. DoorAddress is where users find it, empty where
	// the node is to find that out, "none" where they can't.
	DoorListen  string
	DoorFile    string
	DoorAddress string

	HealthListen  string
	HealthFile    string
	ControlSocket string

	LogLevel  string
	LogFormat string

	Heartbeat   time.Duration
	PollWait    time.Duration
	StepTimeout time.Duration
	StopTimeout time.Duration

	// Texts are the values of modules' settings that have no member here, by name.
	Texts map[string]string
}

// Containers is how users' containers are run.
type Containers struct {
	// Containerd is the socket of the containerd to use; empty: the system's or,
	// where OwnContainerd is set or that isn't good enough, croft's own, whose
	// program is ContainerdBinary.
	Containerd       string
	OwnContainerd    bool
	ContainerdBinary string
	// InitBinary is the first process of interactive containers; empty: croft-init
	// beside this program.
	InitBinary string
	// Without names what new containers must do without.
	Without []string
	// ZDBBinary is what zdb containers run; empty: zdb beside this program.
	ZDBBinary string

	// ImagePaths are where images in files may lie, PlainHTTP the registries
	// (host or host:port) that are spoken to without TLS.
	ImagePaths []string
	PlainHTTP  []string
	// MaxImage bounds one image, UserImages all that one user pulls at a time;
	// bytes on the disk. Images that nothing has used for ImageUnused go, and when more
	// than ImageFull percent of their disk is full the longest unused first.
	MaxImage    uint64
	UserImages  uint64
	ImageFull   uint64
	ImageUnused time.Duration

	// Layer is what a container may write beside its volumes, in bytes; PIDs how
	// many processes and threads it may have.
	Layer uint64
	PIDs  uint64
	// ReadRate and WriteRate are bytes a second that a container may read from and write to
	// a disk, ReadOps and WriteOps requests a second; 0 is no limit.
	ReadRate, WriteRate uint64
	ReadOps, WriteOps   uint64
	// SendRate and ReceiveRate are bytes a second of a container on each of its network
	// interfaces; 0 is no limit.
	SendRate, ReceiveRate uint64
	// LogSize bounds a log file in bytes, LogFiles how many a container has.
	LogSize  uint64
	LogFiles uint64
	// Cgroup is the control group that those of containers are in.
	Cgroup string
}

// ZDB is how zdb containers are run and reached.
type ZDB struct {
	// FirstPort and LastPort are the ends of the range of their ports.
	FirstPort, LastPort uint16
	// Listen is the address that they answer at, the zero Addr for all; IPv4 and IPv6
	// those that users are told, the zero Addr where the node is to find that out.
	Listen, IPv4, IPv6 netip.Addr
	// Memory is in bytes, CPU in cores: each zdb container's.
	Memory uint64
	CPU    uint64
}

// Disk is a whole disk that becomes a pool. An empty Type means what the kernel says.
type Disk struct {
	Type workload.DeviceType
	Path string
}

// Amounts are amounts of what a node has.
type Amounts struct {
	// CPU is in cores.
	CPU    uint64
	Memory uint64
	Disk   uint64
}

// Limit is what one user may have on this node at a time; 0 is no limit.
type Limit struct {
	Workloads uint64
	// Records also counts what has ended, until its signed end.
	Records uint64
	CPU     uint64
	Memory  uint64
	SSD     uint64
	HDD     uint64
}

// Package config holds the operator's settings: one table of settings, read from flags, the
// environment, a file and defaults, in that order. It reads and validates; it changes nothing on the
// node.
package config

import (
	"net/netip"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/workload"
)

// Config is the effective configuration. Sizes are in bytes.
type Config struct {
	// StateDir holds the state that must survive a reboot, RunDir the state that must not.
	StateDir string
	RunDir   string
	// HooksDir is the folder of the operator's hooks.
	HooksDir string

	// SecretsDir is the folder of secrets: the keys of S3 servers, and those of the node's own that the operator gives.
	SecretsDir string
	// Mirrors are the places of the store's mirrors. RecoveryKey is the ID of the key that can open them too, empty for none.
	Mirrors     []mirrors.Place
	RecoveryKey string

	// Explorer is the explorer's base URL, FarmID the farm that the node joins.
	Explorer string
	FarmID   uint64
	// TrustExplorerClock allows the removal of data by the explorer's time alone.
	TrustExplorerClock bool

	// Bus is the URL of a redis server when modules are separate processes; empty when the whole node is
	// one process. BusListen is the address where that one process serves its bus to others; empty for
	// nowhere.
	Bus       string
	BusListen string

	// PoolSize is the size of the pool on a loop file, which is not made when Disks is set. WipeDisks
	// may be overwritten though they hold data.
	PoolSize  uint64
	PoolType  workload.DeviceType
	Disks     []Disk
	WipeDisks []string

	// NetworkUplinks is the range between the node and its users' networks, PublicIP6Range the range of
	// public_ip6 addresses (the zero Prefix: none), DNSServers the resolvers of users' networks (none:
	// those of /etc/resolv.conf).
	NetworkUplinks netip.Prefix
	PublicIP6Range netip.Prefix
	DNSServers     []netip.AddrPort

	Containers Containers
	ZDB        ZDB

	// Reserve is kept for the node itself, UserLimit is the maximum of one user.
	Reserve Amounts
	// Overcommit is how many times each unreserved core is promised.
	Overcommit uint64
	UserLimit  Limit
	// MaxRecords is the maximum of remembered reservations of all users; 0 is no limit.
	MaxRecords uint64

	// ModulesOff are the names of modules that the operator has switched off.
	ModulesOff []string

	AllowUsers []string
	DebugUsers []string
	// AllowPrivate are the non-public destinations that tenants may reach.
	AllowPrivate      []dial.Exception
	MaxDuration       time.Duration
	AcceptSignatureV1 bool
	Grace             time.Duration

	// DoorListen is the address of the node's door for users, empty for none; the address in use is
	// written to DoorFile. DoorAddress is the address that users are told, empty where the node
	// determines it, "none" where there is none.
	DoorListen  string
	DoorFile    string
	DoorAddress string

	HealthListen string
	HealthFile   string
	StateSocket  string

	LogLevel  string
	LogFormat string

	Heartbeat   time.Duration
	PollWait    time.Duration
	StepTimeout time.Duration
	StopTimeout time.Duration

	// Texts are the values of modules' settings that have no field here, by name.
	Texts map[string]string
}

// Containers configures users' containers.
type Containers struct {
	// Containerd is the socket of the containerd to use; empty: the system's or, where OwnContainerd is
	// set or the system's is unsuitable, croft's own, whose program is ContainerdBinary.
	Containerd       string
	OwnContainerd    bool
	ContainerdBinary string
	// InitBinary is the first process of interactive containers; empty: croft-init
	// beside this program.
	InitBinary string
	// Without names the rights that new containers must renounce.
	Without []string
	// ZDBBinary is the program of zdb containers; empty: zdb beside this program.
	ZDBBinary string

	// ImagePaths are the folders of images in files, PlainHTTP the registries (host or host:port) that
	// are accessed without TLS.
	ImagePaths []string
	PlainHTTP  []string
	// MaxImage bounds one image, UserImages all images of one user at a time; bytes on the disk. Images
	// unused for ImageUnused are removed, and when more than ImageFull percent of their disk is full,
	// the longest unused first.
	MaxImage    uint64
	UserImages  uint64
	ImageFull   uint64
	ImageUnused time.Duration

	// Layer is how much a container may write outside its volumes, in bytes; PIDs its maximum of
	// processes and threads.
	Layer uint64
	PIDs  uint64
	// ReadRate and WriteRate are bytes a second that a container may read from and write to
	// a disk, ReadOps and WriteOps requests a second; 0 is no limit.
	ReadRate, WriteRate uint64
	ReadOps, WriteOps   uint64
	// SendRate and ReceiveRate are bytes a second of a container on each of its network
	// interfaces; 0 is no limit.
	SendRate, ReceiveRate uint64
	// LogSize bounds a log file in bytes, LogFiles the log files of a container.
	LogSize  uint64
	LogFiles uint64
	// Cgroup is the parent control group of containers.
	Cgroup string
}

// ZDB configures zdb containers and their addresses.
type ZDB struct {
	// FirstPort and LastPort are the ends of their port range.
	FirstPort, LastPort uint16
	// Listen is the address that they listen on, the zero Addr for all; IPv4 and IPv6 are the addresses
	// that users are told, the zero Addr where the node determines them.
	Listen, IPv4, IPv6 netip.Addr
	// Memory is in bytes, CPU in cores, of each zdb container.
	Memory uint64
	CPU    uint64
	// Sync has them answer a write only once it is on the disk.
	Sync bool
}

// Disk is a whole disk that becomes a pool. An empty Type means the type that the kernel reports.
type Disk struct {
	Type workload.DeviceType
	Path string
}

// Amounts are amounts of a node's resources.
type Amounts struct {
	// CPU is in cores.
	CPU    uint64
	Memory uint64
	Disk   uint64
}

// Limit is one user's maximum on this node at a time; 0 is no limit.
type Limit struct {
	Workloads uint64
	// Records also counts ended workloads, until their signed expiry.
	Records uint64
	CPU     uint64
	Memory  uint64
	SSD     uint64
	HDD     uint64
}

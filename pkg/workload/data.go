package workload

import (
	"bytes"
	"encoding/json"
	"net"

	"github.com/kballard/go-shellquote"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/fielderror"
)

// DeviceType is the type of a disk.
type DeviceType string

// The types of disk.
const (
	SSD DeviceType = "SSD"
	HDD DeviceType = "HDD"
)

// ZDBMode is the mode of a 0-db namespace.
type ZDBMode string

// The modes of a 0-db namespace.
const (
	ZDBUser ZDBMode = "user"
	ZDBSeq  ZDBMode = "seq"
)

// NetID is the display ID of a user's network (see NetworkID).
type NetID string

// ProvisionCounters counts a node's deployed, unexpired workloads by type.
type ProvisionCounters struct {
	Container int64
	Volume    int64
	Network   int64
	ZDB       int64
	VM        int64
	Debug     int64
}

// Volume asks for its own file system.
type Volume struct {
	// Size is in GiB.
	Size uint64     `json:"size"`
	Type DeviceType `json:"type"`
}

// Bytes is the size in bytes. It can't overflow in data that was validated.
func (v Volume) Bytes() uint64 { return v.Size * GiB }

// VolumeResult answers a Volume.
type VolumeResult struct {
	ID string `json:"volume_id"`
}

// Mount puts a volume of the same user into a container.
type Mount struct {
	VolumeID   string `json:"volume_id"`
	Mountpoint string `json:"mountpoint"`
	// VolumeHash is the hash of the volume's reservation (see ParseHash), of
	// version 2 only: the explorer assigns IDs, the hash is of the user's signed
	// bytes. Empty when the ID alone identifies the volume.
	VolumeHash string `json:"volume_hash,omitempty"`
}

// ContainerNetwork is a container's membership in a network.
type ContainerNetwork struct {
	// NetworkID is the network's name.
	NetworkID NetID    `json:"network_id"`
	IPs       []net.IP `json:"ips"`
	PublicIP6 bool     `json:"public_ip6"`
	// NetworkHash is the hash of a reservation of that network (see ParseHash),
	// of version 2 only. A network is updated under its name, so any reservation
	// of it that the node has accepted will do, also one that was updated since.
	// Empty when the name alone identifies the network.
	NetworkHash string `json:"network_hash,omitempty"`
}

// ContainerCapacity is a container's limits.
type ContainerCapacity struct {
	// CPU is in cores.
	CPU uint `json:"cpu"`
	// Memory is in MiB.
	Memory uint64 `json:"memory"`
}

// Bytes is the memory in bytes. It can't overflow in data that was validated.
func (c ContainerCapacity) Bytes() uint64 { return c.Memory * MiB }

// Container asks for a container.
type Container struct {
	FList        string            `json:"flist"`
	FlistStorage string            `json:"flist_storage"`
	Env          map[string]string `json:"env"`
	// SecretEnv's values are sealed to the node, hex.
	SecretEnv   map[string]string `json:"secret_env"`
	Entrypoint  string            `json:"entrypoint"`
	Interactive bool              `json:"interactive"`
	Mounts      []Mount           `json:"mounts"`
	Network     ContainerNetwork  `json:"network"`
	Capacity    ContainerCapacity `json:"capacity"`
	// ImageAuth is sealed to the node, hex: "user:password" of the registry.
	ImageAuth string `json:"image_auth,omitempty"`
	// Restrictions, of version 2 alone. ReadOnly: no writing to its root file system,
	// beside its volumes. NoCapabilities: no capabilities of a container's root
	// beyond a plain user. NonRoot: not run as root.
	ReadOnly       bool `json:"read_only,omitempty"`
	NoCapabilities bool `json:"no_capabilities,omitempty"`
	NonRoot        bool `json:"non_root,omitempty"`
	// Name makes it one of a sequence: a later reservation of the same user, node and
	// name replaces it (see ContainerKey). Of version 2 alone; empty for none.
	Name string `json:"name,omitempty"`
}

// Without are the names of the container's restrictions.
func (c *Container) Without() []string {
	var out []string
	for _, w := range []struct {
		name string
		set  bool
	}{{"read_only", c.ReadOnly}, {"no_capabilities", c.NoCapabilities}, {"non_root", c.NonRoot}} {
		if w.set {
			out = append(out, w.name)
		}
	}
	return out
}

// ContainerResult answers a Container.
type ContainerResult struct {
	ID   string `json:"id"`
	IPv6 string `json:"ipv6"`
	IPv4 string `json:"ipv4"`
	// Image is the digest of the image's manifest, to which a tag resolved.
	Image string `json:"image,omitempty"`
}

// ContainerFailure is the data of the error of a Container that ended too soon.
type ContainerFailure struct {
	// LastLines are its last lines of output, with a line feed after each, sealed to its
	// user's key (sign.Seal), in hex: results are public.
	LastLines string `json:"last_lines"`
}

// WireGuardPeer is a peer of a network resource.
type WireGuardPeer struct {
	Subnet     string   `json:"subnet"`
	PublicKey  string   `json:"wg_public_key"`
	AllowedIPs []string `json:"allowed_ips"`
	// Endpoint is host:port, empty for an unreachable peer.
	Endpoint string `json:"endpoint"`
}

// NetworkResource is one node's part of a network.
type NetworkResource struct {
	NodeID string `json:"node_id"`
	Subnet string `json:"subnet"`
	// PrivateKey is the base64 WireGuard key, sealed to the node, hex.
	PrivateKey string          `json:"wg_private_key"`
	PublicKey  string          `json:"wg_public_key"`
	ListenPort uint16          `json:"wg_listen_port"`
	Peers      []WireGuardPeer `json:"peers"`
}

// Network asks for a private network across nodes.
type Network struct {
	Name string `json:"name"`
	// NetID is empty on the wire.
	NetID     NetID             `json:"net_id"`
	IPRange   string            `json:"ip_range"`
	Resources []NetworkResource `json:"net_resources"`
}

// ZDB asks for a 0-db namespace.
type ZDB struct {
	// Size is in GiB.
	Size uint64  `json:"size"`
	Mode ZDBMode `json:"mode"`
	// Password is sealed to the node, hex; empty for none.
	Password string     `json:"password"`
	DiskType DeviceType `json:"disk_type"`
	Public   bool       `json:"public"`

	PlainPassword string `json:"-"`
}

// Bytes is the size in bytes. It can't overflow in data that was validated.
func (z ZDB) Bytes() uint64 { return z.Size * GiB }

// ZDBResult answers a ZDB; its JSON members are capitalized, as the seed's.
type ZDBResult struct {
	Namespace string
	IP        string
	Port      uint
	// Container is the zdb container that the namespace lives in.
	Container string `json:",omitempty"`
}

// Kubernetes asks for a Kubernetes VM.
type Kubernetes struct {
	Size      uint8  `json:"size"`
	NetworkID NetID  `json:"network_id"`
	IP        net.IP `json:"ip"`
	// ClusterSecret is sealed to the node, hex.
	ClusterSecret string   `json:"cluster_secret"`
	MasterIPs     []net.IP `json:"master_ips"`
	SSHKeys       []string `json:"ssh_keys"`
	// NetworkHash is as in ContainerNetwork.
	NetworkHash string `json:"network_hash,omitempty"`

	PlainClusterSecret string `json:"-"`
}

// KubernetesResult answers a Kubernetes.
type KubernetesResult struct {
	ID string `json:"id"`
	IP string `json:"ip"`
}

// Debug asks for a stream of the node's log lines: each is a PUBLISH on a
// channel of the redis server at Host and Port.
type Debug struct {
	Host string `json:"host"`
	Port int    `json:"port"`
	// Channel is DebugChannel of the node when it is empty.
	Channel string `json:"channel"`
}

// DebugChannel is the channel of a node's log lines when a Debug names none.
func DebugChannel(nodeID string) string { return nodeID + "-logs" }

// Data is the data of one of the six types.
type Data interface {
	Container | Volume | Network | ZDB | Debug | Kubernetes
}

// DataOf decodes the reservation's data. It decodes the canonical form of data that
// the type's schema accepts, so everybody reads the same in it. It makes no checks
// beyond the schema: Validate makes them all.
func DataOf[T Data](r *Reservation) (T, error) {
	var out T
	if t := typeOf(out); r.Type != t {
		return out, fielderror.New("type", string(r.Type), "%s", t)
	}
	canonical, err := validData(r)
	if err != nil {
		return out, err
	}
	return out, decodeCanonical(canonical, &out)
}

func typeOf(data any) Type {
	switch data.(type) {
	case Container:
		return TypeContainer
	case Volume:
		return TypeVolume
	case Network:
		return TypeNetwork
	case ZDB:
		return TypeZDB
	case Debug:
		return TypeDebug
	}
	return TypeKubernetes
}

func decodeCanonical(canonical []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.DisallowUnknownFields()
	return errors.Wrap(d.Decode(to), "cannot read data")
}

// SplitEntrypoint splits a container's entry point into words as a shell would: at
// spaces that aren't quoted or behind a backslash. It does nothing else of a shell:
// no variables, patterns or redirections. An entry point of spaces alone is none:
// nil. The error is a FieldError of data.entrypoint.
func SplitEntrypoint(entrypoint string) ([]string, error) {
	const field = "data.entrypoint"
	args, err := shellquote.Split(entrypoint)
	switch {
	case err != nil:
		return nil, fielderror.New(field, entrypoint, "a command whose quotes are all closed, and that doesn't end in a backslash")
	case len(args) == 0:
		return nil, nil
	case args[0] == "":
		return nil, fielderror.New(field, entrypoint, "a command whose first word isn't empty")
	}
	return args, nil
}

package container_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/container"
)

var (
	_ provisioner.Provisioner = (*container.Provisioner)(nil)
	_ provisioner.Watched     = (*container.Provisioner)(nil)
	_ provisioner.Preparer    = (*container.Provisioner)(nil)
	_ provisioner.Stopper     = (*container.Provisioner)(nil)
	_ provisioner.Successor   = (*container.Provisioner)(nil)
)

const gib = 1 << 30

// fakeNode fakes all modules in memory, to their contracts.
type fakeNode struct {
	t      *testing.T
	key    sign.KeyPair
	user   string
	owner  sign.KeyPair
	owners map[string]container.Owner
	// known are the user's networks: by name, and by name and hash.
	known    map[string]container.Presence
	volumes  map[string]node.Filesystem
	networks map[string]string
	members  map[string]node.MemberSpec
	images   map[string]node.Image
	boxes    map[string]node.ContainerSpec
	started  map[string]int
	disks    []workload.DeviceType
	calls    []string
	fail     map[string]error
	ready    bool
	auth     string
	boxDrift string
	past     provisioner.Past
	// runs are the running containers, exits the exit codes of those that end once started.
	runs  map[string]bool
	exits map[string]uint64
	// dies is the number of changing calls after which the node dies and every
	// call fails; 0 for never.
	dies int
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	user, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return &fakeNode{
		t: t, key: key, user: user.ID(), owner: user, known: map[string]container.Presence{"net": container.Accepted},
		owners: map[string]container.Owner{
			"1-1": {User: user.ID(), Type: workload.TypeVolume, Hash: hashOf(1)}, "9-9": {User: "somebody else", Type: workload.TypeVolume, Hash: hashOf(9)},
			"1-2": {User: user.ID(), Type: workload.TypeVolume, Hash: hashOf(2)}, "5-1": {User: user.ID(), Type: workload.TypeZDB, Hash: hashOf(5)},
		},
		volumes:  map[string]node.Filesystem{"1-1": volumeOf("1-1", 1), "9-9": volumeOf("9-9", 9), "1-2": volumeOf("1-2", 2), "5-1": volumeOf("5-1", 5)},
		networks: map[string]string{networkKey(user.ID(), "net"): "10.1.1.1"}, members: map[string]node.MemberSpec{},
		images: map[string]node.Image{}, boxes: map[string]node.ContainerSpec{}, started: map[string]int{}, runs: map[string]bool{}, exits: map[string]uint64{},
		disks: []workload.DeviceType{workload.HDD, workload.SSD}, fail: map[string]error{}, ready: true,
	}
}

// volumeOf is a file system with that hash of a reservation.
func volumeOf(name string, hash byte) node.Filesystem {
	return node.Filesystem{Name: name, Path: "/pools/a/" + name, Hash: hashOf(hash).Hex()}
}

// hashOf is a made-up reservation hash.
func hashOf(n byte) workload.Hash { return workload.Hash{n} }

func networkKey(user, name string) string {
	k := workload.NetworkKey(user, name)
	return fmt.Sprintf("%x", k[:])
}

func (f *fakeNode) provisioner() *container.Provisioner {
	return container.New(container.Config{
		Containers: fakeContainers{f}, Images: fakeImages{f}, Networks: fakeNetworks{f}, Storage: fakeStorage{f},
		Identity: f, Owners: f, Past: f.past, Layer: gib, Steady: 20 * time.Millisecond,
	})
}

// call records a changing call; it fails with its error in fail, or if the node has died.
func (f *fakeNode) call(name string) error {
	if f.dies > 0 && len(f.calls) >= f.dies {
		return node.Errorf(node.Transient, "the node has died")
	}
	f.calls = append(f.calls, name)
	return f.fail[name]
}

// reads is a call that changes nothing; it fails when the node has died.
func (f *fakeNode) reads() error {
	if f.dies > 0 && len(f.calls) >= f.dies {
		return node.Errorf(node.Transient, "the node has died")
	}
	return nil
}

// left lists the node's containers, layers, places in networks and images.
func (f *fakeNode) left() []string {
	out := slices.Collect(maps.Keys(f.boxes))
	for name := range f.volumes {
		if _, volume := f.owners[name]; !volume {
			out = append(out, name)
		}
	}
	out = slices.AppendSeq(out, maps.Keys(f.members))
	out = slices.AppendSeq(out, maps.Keys(f.images))
	slices.Sort(out)
	return out
}

func (f *fakeNode) Owner(id string) (container.Owner, error) {
	if owner, ok := f.owners[id]; ok {
		return owner, f.fail["owner"]
	}
	return container.Owner{}, node.Errorf(node.NotExist, "there is none")
}

func (f *fakeNode) HasNetwork(user, name string, hash workload.Hash) (container.Presence, error) {
	if user != f.user {
		return container.Absent, nil
	}
	if hash != (workload.Hash{}) {
		name += " " + hash.Hex()
	}
	return f.known[name], f.fail["has network"]
}

func (f *fakeNode) Decrypt(_ context.Context, box []byte) ([]byte, error) {
	if err := f.fail["decrypt"]; err != nil {
		return nil, err
	}
	plain, err := f.key.Open(box)
	return plain, node.WithKind(node.Invalid, err)
}

func (f *fakeNode) seal(path, secret string) string {
	f.t.Helper()
	sealed, err := workload.SealSecret(f.key.ID(), f.user, workload.TypeContainer, path, []byte(secret))
	if err != nil {
		f.t.Fatal(err)
	}
	return sealed
}

func (f *fakeNode) reservation(data string) *workload.Reservation {
	return &workload.Reservation{
		ID: "2-1", NodeID: f.key.ID(), User: f.user, Type: workload.TypeContainer, Data: []byte(data),
		Version: workload.V2, Created: time.Now(), Duration: time.Hour,
	}
}

type fakeContainers struct{ *fakeNode }

func (f fakeContainers) Create(_ context.Context, spec node.ContainerSpec) (node.ContainerInfo, error) {
	if err := f.call("create"); err != nil {
		return node.ContainerInfo{}, err
	}
	if old, ok := f.boxes[spec.ID]; ok {
		if err := (node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}).Check("create", old.Hash); err != nil {
			return node.ContainerInfo{}, err
		}
	}
	f.boxes[spec.ID] = spec
	return node.ContainerInfo{ID: spec.ID, User: spec.User, Namespace: "/run/ns/" + spec.ID}, nil
}

func (f fakeContainers) Start(_ context.Context, id string) (node.ContainerInfo, error) {
	if err := f.call("start"); err != nil {
		return node.ContainerInfo{}, err
	}
	f.started[id]++
	f.runs[id] = true
	return node.ContainerInfo{ID: id}, nil
}

func (f fakeContainers) Delete(_ context.Context, id string) error {
	if err := f.call("delete"); err != nil {
		return err
	}
	delete(f.runs, id)
	return drop(f.boxes, id)
}

func (f fakeContainers) Inspect(_ context.Context, id string) (node.ContainerInfo, error) {
	box, ok := f.boxes[id]
	if !ok {
		return node.ContainerInfo{}, node.Errorf(node.NotExist, "there is none")
	}
	info := node.ContainerInfo{ID: id, Hash: box.Hash, Drift: f.boxDrift}
	if code, ended := f.exits[id]; ended && f.runs[id] {
		info.Ended, info.ExitCode = time.Now().UnixNano(), code
	}
	return info, f.reads()
}

func (f fakeContainers) Logs(_ context.Context, id string, _ uint64) ([]node.LogLine, error) {
	return []node.LogLine{{Text: id + " says"}, {Text: "out of paper"}}, f.reads()
}

func (f fakeContainers) List(context.Context) ([]node.ContainerInfo, error) {
	var out []node.ContainerInfo
	for id, spec := range f.boxes {
		out = append(out, node.ContainerInfo{ID: id, User: spec.User, Hash: spec.Hash, Drift: f.boxDrift})
	}
	return out, f.reads()
}

type fakeImages struct{ *fakeNode }

func (f fakeImages) Pull(_ context.Context, spec node.ImageSpec) (node.Image, error) {
	if err := f.call("pull"); err != nil {
		return node.Image{}, err
	}
	if old, ok := f.images[spec.Label]; ok {
		if err := (node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}).Check("pull", old.Hash); err != nil {
			return node.Image{}, err
		}
	}
	f.auth = spec.Auth
	image := node.Image{Label: spec.Label, User: spec.User, Hash: spec.Hash, Digest: "sha256:1234", Ready: f.ready, Done: 12 << 20, Total: 80 << 20}
	f.images[spec.Label] = image
	return image, nil
}

func (f fakeImages) Inspect(_ context.Context, label string) (node.Image, error) {
	if i, ok := f.images[label]; ok {
		return i, f.reads()
	}
	return node.Image{}, node.Errorf(node.NotExist, "there is none")
}

func (f fakeImages) Release(_ context.Context, label string) error {
	if err := f.call("release image"); err != nil {
		return err
	}
	return drop(f.images, label)
}

func (f fakeImages) List(context.Context) ([]node.Image, error) {
	return slices.Collect(maps.Values(f.images)), f.reads()
}

type fakeNetworks struct{ *fakeNode }

func (f fakeNetworks) Gateway(_ context.Context, id string) (string, error) {
	if gateway, ok := f.networks[id]; ok {
		return gateway, f.reads()
	}
	return "", node.Errorf(node.NotExist, "there is none")
}

func (f fakeNetworks) Join(_ context.Context, spec node.MemberSpec) (node.Member, error) {
	if err := f.call("join"); err != nil {
		return node.Member{}, err
	}
	if old, ok := f.members[spec.Member]; ok {
		if err := (node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}).Check("join", old.Hash); err != nil {
			return node.Member{}, err
		}
	}
	for _, other := range f.members {
		if other.Member != spec.Member && slices.ContainsFunc(spec.IPs, func(ip string) bool { return slices.Contains(other.IPs, ip) }) {
			return node.Member{}, node.Errorf(node.Refused, "an IP is %v, must be one that no other member has", spec.IPs)
		}
	}
	f.members[spec.Member] = spec
	m := node.Member{Network: spec.Network, Member: spec.Member, IPv4: spec.IPs[0], IPv6: "fd00::2"}
	if spec.PublicIP6 {
		m.PublicIPv6 = "2001:db8::2"
	}
	return m, nil
}

func (f fakeNetworks) Leave(_ context.Context, _, member string) error {
	if err := f.call("leave"); err != nil {
		return err
	}
	return drop(f.members, member)
}

func (f fakeNetworks) List(context.Context) ([]node.NetworkInfo, error) {
	var out []node.NetworkInfo
	for id := range f.networks {
		n := node.NetworkInfo{ID: id}
		for _, m := range f.members {
			n.Members = append(n.Members, node.Member{Member: m.Member, Hash: m.Hash})
		}
		out = append(out, n)
	}
	return out, f.reads()
}

type fakeStorage struct{ *fakeNode }

func (f fakeStorage) CreateFilesystem(_ context.Context, spec node.FilesystemSpec) (node.Filesystem, error) {
	if err := f.call("create layer"); err != nil {
		return node.Filesystem{}, err
	}
	if old, ok := f.volumes[spec.Name]; ok {
		if err := (node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}).Check("create layer", old.Hash); err != nil {
			return node.Filesystem{}, err
		}
	}
	fs := node.Filesystem{Name: spec.Name, Path: "/pools/a/" + spec.Name, Size: spec.Size, DiskType: spec.DiskType, Hash: spec.Hash}
	f.volumes[spec.Name] = fs
	return fs, nil
}

func (f fakeStorage) ReleaseFilesystem(_ context.Context, name string) error {
	if err := f.call("release layer"); err != nil {
		return err
	}
	return drop(f.volumes, name)
}

func (f fakeStorage) InspectFilesystem(_ context.Context, name string) (node.Filesystem, error) {
	if fs, ok := f.volumes[name]; ok {
		return fs, f.reads()
	}
	return node.Filesystem{}, node.Errorf(node.NotExist, "there is none")
}

func (f fakeStorage) ListFilesystems(context.Context) ([]node.Filesystem, error) {
	return slices.Collect(maps.Values(f.volumes)), f.reads()
}

func (f fakeStorage) Status(context.Context) (node.StorageStatus, error) {
	var s node.StorageStatus
	for _, d := range f.disks {
		s.Pools = append(s.Pools, node.Pool{DiskType: d})
	}
	return s, f.reads()
}

func drop[T any](all map[string]T, key string) error {
	if _, ok := all[key]; !ok {
		return node.Errorf(node.NotExist, "there is none")
	}
	delete(all, key)
	return nil
}

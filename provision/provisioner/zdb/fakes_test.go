package zdb_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/zdb"
)

var (
	_ provisioner.Provisioner = (*zdb.Provisioner)(nil)
	_ provisioner.Watched     = (*zdb.Provisioner)(nil)
	_ provisioner.Preparer    = (*zdb.Provisioner)(nil)
	_ provisioner.DataHolder  = (*zdb.Provisioner)(nil)
	_ provisioner.Stopper     = (*zdb.Provisioner)(nil)
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// fakeNode fakes all modules in memory, to their contracts.
type fakeNode struct {
	t *testing.T
	// born is the signing time of all reservations: equal data has equal hashes.
	born   time.Time
	key    sign.KeyPair
	user   string
	pools  []node.Pool
	broken []node.BrokenPool
	// volumes are the file systems, data the namespaces on them.
	volumes map[string]node.Filesystem
	data    map[string]map[string]node.ZDBNamespaceSpec
	images  map[string]bool
	boxes   map[string]node.ContainerSpec
	// runs are the containers whose zdb answers; ended those that have exited.
	runs  map[string]bool
	ended map[string]bool
	drift map[string]string
	ports map[string]uint16
	// silent is how often a started zdb doesn't answer yet.
	silent int
	// held is how often a volume can't be shrunk yet.
	held  int
	ready bool
	ipv4  string
	past  provisioner.Past

	homes   map[string]zdb.Home
	was     map[string]bool
	calls   []string
	fail    map[string]error
	reading map[string]error
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
		t: t, born: time.Now(), key: key, user: user.ID(), ready: true, ipv4: "192.0.2.7",
		pools:   []node.Pool{{Name: "ssd0", DiskType: workload.SSD, Offered: 100 * gib}, {Name: "hdd0", DiskType: workload.HDD, Offered: 100 * gib}},
		volumes: map[string]node.Filesystem{}, data: map[string]map[string]node.ZDBNamespaceSpec{}, images: map[string]bool{},
		boxes: map[string]node.ContainerSpec{}, runs: map[string]bool{}, ended: map[string]bool{}, drift: map[string]string{}, ports: map[string]uint16{},
		homes: map[string]zdb.Home{}, was: map[string]bool{}, fail: map[string]error{}, reading: map[string]error{},
	}
}

func (f *fakeNode) provisioner() *zdb.Provisioner {
	return zdb.New(zdb.Config{
		Containers: fakeContainers{f}, Images: fakeImages{f}, Storage: fakeStorage{f}, Servers: fakeNamespaces{f}, Namespaces: fakeNamespaces{f},
		Identity: f, Homes: f, Past: f.past, Memory: 64 * mib, CPU: 1, Wait: 200 * time.Millisecond,
	})
}

// call records a changing call; it fails with its error in fail or reading, or if the node has died.
func (f *fakeNode) call(name string) error {
	if err := f.reads(name); err != nil {
		return err
	}
	f.calls = append(f.calls, name)
	return f.fail[name]
}

// reads is a call that changes nothing; it fails with its error in reading, or if the node has died.
func (f *fakeNode) reads(name string) error {
	if f.dies > 0 && len(f.calls) >= f.dies {
		return node.Errorf(node.Transient, "the node has died")
	}
	return f.reading[name]
}

// left lists the node's volumes, containers, images, ports and namespaces.
func (f *fakeNode) left() []string {
	var out []string
	for kind, names := range map[string][]string{
		"volume": keys(f.volumes), "container": keys(f.boxes), "image": keys(f.images), "port": keys(f.ports),
	} {
		for _, name := range names {
			out = append(out, kind+" "+name)
		}
	}
	for volume, all := range f.data {
		for name := range all {
			out = append(out, "namespace "+volume+"/"+name)
		}
	}
	slices.Sort(out)
	return out
}

func keys[T any](m map[string]T) []string { return slices.Collect(maps.Keys(m)) }

// reboot ends all running zdbs; data on disk stays.
func (f *fakeNode) reboot() { clear(f.runs) }

func (f *fakeNode) Decrypt(_ context.Context, box []byte) ([]byte, error) {
	if err := f.fail["decrypt"]; err != nil {
		return nil, err
	}
	plain, err := f.key.Open(box)
	return plain, node.WithKind(node.Invalid, err)
}

func (f *fakeNode) seal(secret string) string {
	f.t.Helper()
	sealed, err := workload.SealSecret(f.key.ID(), f.user, workload.TypeZDB, "password", []byte(secret))
	if err != nil {
		f.t.Fatal(err)
	}
	return sealed
}

func (f *fakeNode) reservation(id, data string) *workload.Reservation {
	return &workload.Reservation{
		ID: id, NodeID: f.key.ID(), User: f.user, Type: workload.TypeZDB, Data: []byte(data),
		Version: workload.V2, Created: f.born, Duration: time.Hour,
	}
}

func (f *fakeNode) Get(id string) (string, bool) {
	home, ok := f.homes[id]
	return home.Container, ok
}

func (f *fakeNode) Set(id, container string) {
	f.homes[id] = zdb.Home{Container: container, Reservation: &workload.Reservation{ID: id}}
}

func (f *fakeNode) All() (map[string]zdb.Home, error) {
	return maps.Clone(f.homes), f.reads("homes")
}

func (f *fakeNode) Was(id string) (bool, error) { return f.was[id], f.reads("was") }

type fakeContainers struct{ *fakeNode }

func (f fakeContainers) info(id string) node.ContainerInfo {
	out := node.ContainerInfo{ID: id, User: f.boxes[id].User, Drift: f.drift[id], State: node.ContainerCreated}
	switch {
	case f.runs[id]:
		out.State = node.ContainerRunning
	case f.ended[id]:
		out.State, out.Ended, out.ExitCode = node.ContainerWaiting, 1, 137
	}
	return out
}

func (f fakeContainers) Create(_ context.Context, spec node.ContainerSpec) (node.ContainerInfo, error) {
	if err := f.call("create container"); err != nil {
		return node.ContainerInfo{}, err
	}
	if !f.images[spec.ID] {
		return node.ContainerInfo{}, node.Errorf(node.NotExist, "it has no image")
	}
	f.boxes[spec.ID] = spec
	delete(f.drift, spec.ID)
	return f.info(spec.ID), nil
}

func (f fakeContainers) Start(_ context.Context, id string) (node.ContainerInfo, error) {
	if err := f.call("start"); err != nil {
		return node.ContainerInfo{}, err
	}
	f.runs[id] = true
	return f.info(id), nil
}

func (f fakeContainers) Delete(_ context.Context, id string) error {
	if err := f.call("delete container"); err != nil {
		return err
	}
	delete(f.runs, id)
	return drop(f.boxes, id)
}

func (f fakeContainers) Inspect(_ context.Context, id string) (node.ContainerInfo, error) {
	if _, ok := f.boxes[id]; !ok {
		return node.ContainerInfo{}, node.Errorf(node.NotExist, "there is no container")
	}
	return f.info(id), f.reads("inspect container")
}

func (f fakeContainers) List(context.Context) ([]node.ContainerInfo, error) {
	var out []node.ContainerInfo
	for id := range f.boxes {
		out = append(out, f.info(id))
	}
	return out, f.reads("list containers")
}

type fakeImages struct{ *fakeNode }

func (f fakeImages) Pull(_ context.Context, spec node.ImageSpec) (node.Image, error) {
	if err := f.call("pull"); err != nil {
		return node.Image{}, err
	}
	if spec.Reference != "croft://zdb" || spec.User != node.OwnUser {
		f.t.Errorf("asked for image %+v", spec)
	}
	f.images[spec.Label] = true
	return node.Image{Label: spec.Label, User: spec.User, Ready: f.ready, Unpacking: !f.ready}, nil
}

func (f fakeImages) Inspect(_ context.Context, label string) (node.Image, error) {
	if !f.images[label] {
		return node.Image{}, node.Errorf(node.NotExist, "there is no image")
	}
	return node.Image{Label: label, User: node.OwnUser, Ready: f.ready}, f.reads("inspect image")
}

func (f fakeImages) Release(_ context.Context, label string) error {
	if err := f.call("release image"); err != nil {
		return err
	}
	return drop(f.images, label)
}

func (f fakeImages) List(context.Context) ([]node.Image, error) {
	var out []node.Image
	for label := range f.images {
		out = append(out, node.Image{Label: label, User: node.OwnUser})
	}
	return out, f.reads("list images")
}

type fakeStorage struct{ *fakeNode }

func (f fakeStorage) pool(name string) *node.Pool {
	i := slices.IndexFunc(f.pools, func(p node.Pool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &f.pools[i]
}

// hidden reports whether a file system is on a broken pool.
func (f fakeStorage) hidden(fs node.Filesystem) bool {
	return slices.ContainsFunc(f.broken, func(p node.BrokenPool) bool { return p.Name == fs.Pool })
}

func (f fakeStorage) CreateFilesystem(_ context.Context, spec node.FilesystemSpec) (node.Filesystem, error) {
	what := "create volume"
	if strings.HasSuffix(spec.Name, ".layer") {
		what = "create layer"
	}
	if err := f.call(what); err != nil {
		return node.Filesystem{}, err
	}
	p := f.pool(spec.Pool)
	if p == nil || p.DiskType != spec.DiskType {
		return node.Filesystem{}, node.Errorf(node.Refused, "no pool %s of type %s", spec.Pool, spec.DiskType)
	}
	if p.Offered-p.Reserved < spec.Size {
		return node.Filesystem{}, node.Errorf(node.NoSpace, "needs %d", spec.Size)
	}
	p.Reserved += spec.Size
	fs := node.Filesystem{Name: spec.Name, Path: "/pools/" + p.Name + "/" + spec.Name, Pool: p.Name, Size: spec.Size, DiskType: spec.DiskType}
	f.volumes[spec.Name] = fs
	return fs, nil
}

func (f fakeStorage) ReleaseFilesystem(_ context.Context, name string) error {
	if err := f.call("release volume"); err != nil {
		return err
	}
	fs, ok := f.volumes[name]
	if ok {
		f.pool(fs.Pool).Reserved -= fs.Size
	}
	delete(f.data, name)
	return drop(f.volumes, name)
}

func (f fakeStorage) ResizeFilesystem(_ context.Context, name string, size uint64) (node.Filesystem, error) {
	what := "shrink"
	if size > f.volumes[name].Size {
		what = "grow"
	}
	if err := f.call(what); err != nil {
		return node.Filesystem{}, err
	}
	fs, ok := f.volumes[name]
	if !ok {
		return fs, node.Errorf(node.NotExist, "there is no file system")
	}
	p := f.pool(fs.Pool)
	switch {
	case size > fs.Size && p.Offered-p.Reserved < size-fs.Size:
		return fs, node.Errorf(node.NoSpace, "needs %d more", size-fs.Size)
	case size < fs.Size && f.held > 0:
		f.held--
		return fs, node.Errorf(node.Busy, "it holds more")
	}
	p.Reserved += size - fs.Size
	fs.Size = size
	f.volumes[name] = fs
	return fs, nil
}

func (f fakeStorage) InspectFilesystem(_ context.Context, name string) (node.Filesystem, error) {
	fs, ok := f.volumes[name]
	if !ok {
		return fs, node.Errorf(node.NotExist, "there is no file system")
	}
	if f.hidden(fs) {
		return fs, node.Errorf(node.Transient, "cannot reach filesystem %s", name)
	}
	return fs, f.reads("inspect volume")
}

func (f fakeStorage) ListFilesystems(context.Context) ([]node.Filesystem, error) {
	var out []node.Filesystem
	for _, fs := range f.volumes {
		if !f.hidden(fs) {
			out = append(out, fs)
		}
	}
	return out, f.reads("list volumes")
}

func (f fakeStorage) Status(context.Context) (node.StorageStatus, error) {
	s := node.StorageStatus{BrokenPools: f.broken}
	for _, p := range f.pools {
		if !f.hidden(node.Filesystem{Pool: p.Name}) {
			s.Pools = append(s.Pools, p)
		}
	}
	return s, f.reads("status")
}

type fakeNamespaces struct{ *fakeNode }

func (f fakeNamespaces) server(id string) node.ZDBServer {
	s := node.ZDBServer{Container: id, Port: f.ports[id], IPv4: f.ipv4}
	if !f.runs[id] {
		s.Drift = "zdb doesn't answer"
	}
	return s
}

func (f fakeNamespaces) Attach(_ context.Context, spec node.ZDBServerSpec) (node.ZDBServer, error) {
	if f.silent > 0 {
		f.silent--
		return node.ZDBServer{}, node.Errorf(node.Transient, "zdb doesn't answer")
	}
	if err := f.call("attach"); err != nil {
		return node.ZDBServer{}, err
	}
	if !f.runs[spec.Container] || spec.Data != f.volumes[spec.Container].Path {
		return node.ZDBServer{}, node.Errorf(node.Transient, "zdb doesn't answer")
	}
	if f.ports[spec.Container] == 0 {
		f.ports[spec.Container] = 9900 + uint16(len(f.ports))
	}
	if f.data[spec.Container] == nil {
		f.data[spec.Container] = map[string]node.ZDBNamespaceSpec{}
	}
	return f.server(spec.Container), nil
}

func (f fakeNamespaces) Detach(_ context.Context, id string) error {
	if err := f.call("detach"); err != nil {
		return err
	}
	return drop(f.ports, id)
}

func (f fakeNamespaces) Servers(context.Context) ([]node.ZDBServer, error) {
	var out []node.ZDBServer
	for id := range f.ports {
		out = append(out, f.server(id))
	}
	return out, f.reads("servers")
}

// answers returns the error of a zdb container that doesn't answer.
func (f fakeNamespaces) answers(id string) error {
	switch {
	case f.ports[id] == 0:
		return node.Errorf(node.NotExist, "%s isn't in hand", id)
	case !f.runs[id]:
		return node.Errorf(node.Transient, "zdb doesn't answer")
	}
	return nil
}

func (f fakeNamespaces) Create(_ context.Context, spec node.ZDBNamespaceSpec) (node.ZDBNamespace, error) {
	if err := f.call("create namespace"); err != nil {
		return node.ZDBNamespace{}, err
	}
	if err := f.answers(spec.Container); err != nil {
		return node.ZDBNamespace{}, err
	}
	if old, ok := f.data[spec.Container][spec.Name]; ok {
		if err := (node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}).Check("create", old.Hash); err != nil {
			return node.ZDBNamespace{}, err
		}
	}
	f.data[spec.Container][spec.Name] = spec
	return node.ZDBNamespace{}, nil
}

func (f fakeNamespaces) Delete(_ context.Context, id, name string) error {
	if err := f.call("delete namespace"); err != nil {
		return err
	}
	if err := f.answers(id); err != nil {
		return err
	}
	return drop(f.data[id], name)
}

func (f fakeNamespaces) List(_ context.Context, id string) ([]node.ZDBNamespace, error) {
	if err := f.answers(id); err != nil {
		return nil, err
	}
	var out []node.ZDBNamespace
	for name, spec := range f.data[id] {
		out = append(out, node.ZDBNamespace{Container: id, Name: name, Size: spec.Size, Public: spec.Public, Protected: spec.Password != "", Hash: spec.Hash})
	}
	slices.SortFunc(out, func(a, b node.ZDBNamespace) int { return strings.Compare(a.Name, b.Name) })
	return out, f.reads("list namespaces")
}

func drop[T any](all map[string]T, key string) error {
	if _, ok := all[key]; !ok {
		return node.Errorf(node.NotExist, "there is none")
	}
	delete(all, key)
	return nil
}

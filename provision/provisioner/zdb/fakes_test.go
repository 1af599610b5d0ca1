package zdb_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/fakenode"
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

// world is a node's modules and its records.
type world struct {
	*fakenode.Node
	t     *testing.T
	stubs fakenode.Stubs
	// born is the signing time of all reservations: equal data has equal hashes.
	born time.Time
	user string
	past provisioner.Past

	homes map[string]zdb.Home
	was   map[string]bool
	// unread is the error of reading all homes.
	unread error
	// wait is how long the provisioner waits for a zdb.
	wait time.Duration
	// sync has zdb containers sync each write.
	sync bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	user, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	n := fakenode.New(t, node.Pool{Name: "ssd0", DiskType: workload.SSD, Offered: 100 * gib}, node.Pool{Name: "hdd0", DiskType: workload.HDD, Offered: 100 * gib})
	return &world{Node: n, t: t, stubs: n.Serve(t), born: time.Now(), wait: 200 * time.Millisecond, user: user.ID(), homes: map[string]zdb.Home{}, was: map[string]bool{}}
}

func (f *world) provisioner() *zdb.Provisioner {
	return zdb.New(zdb.Config{
		Containers: f.stubs.Containers, Images: f.stubs.Images, Storage: f.stubs.Storage, Servers: f.stubs.ZDB, Namespaces: f.stubs.ZDB,
		Identity: f.stubs.Identity, Homes: f, Past: f.past, Memory: 64 * mib, CPU: 1, Wait: f.wait, Sync: f.sync,
	})
}

// left lists the node's volumes, containers, images, ports and namespaces.
func (f *world) left() []string {
	var out []string
	for kind, names := range map[string][]string{
		"volume": keys(f.Storage.Filesystems()), "container": keys(f.Containers.Specs()), "image": keys(f.Images.All()), "port": keys(f.ZDB.Ports()),
	} {
		for _, name := range names {
			out = append(out, kind+" "+name)
		}
	}
	for volume := range f.ZDB.Data() {
		for name := range f.ZDB.Namespaces(volume) {
			out = append(out, "namespace "+path.Base(volume)+"/"+name)
		}
	}
	slices.Sort(out)
	return out
}

func keys[T any](m map[string]T) []string { return slices.Collect(maps.Keys(m)) }

// pathOf is the path of a zdb container's volume, which need not exist.
func pathOf(id string) string { return "/pools/" + strings.Split(id, "-")[1] + "/" + id }

// namespace is a namespace in a zdb container's volume, empty when there is none.
func (f *world) namespace(id, name string) node.ZDBNamespaceSpec {
	return f.ZDB.Namespaces(pathOf(id))[name]
}

func (f *world) sizeOf(volume string) uint64 { return f.Storage.Filesystems()[volume].Size }

// hold keeps a volume from being shrunk to less than size bytes, until free is called.
func (f *world) hold(volume string, size uint64) (free func()) {
	f.t.Helper()
	files, name := fakenode.Files{Storage: f.Storage}, pathOf(volume)+"/unreclaimed"
	if _, err := files.Fill(name, size); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		if err := files.Remove(name); err != nil {
			f.t.Error(err)
		}
	}
}

func (f *world) seal(secret string) string {
	f.t.Helper()
	sealed, err := workload.SealSecret(f.Identity.ID(), f.user, workload.TypeZDB, "password", []byte(secret))
	if err != nil {
		f.t.Fatal(err)
	}
	return sealed
}

func (f *world) reservation(id, data string) *workload.Reservation {
	return &workload.Reservation{
		ID: id, NodeID: f.Identity.ID(), User: f.user, Type: workload.TypeZDB, Data: []byte(data),
		Version: workload.V2, Created: f.born, Duration: time.Hour,
	}
}

func (f *world) Get(id string) (string, bool) {
	home, ok := f.homes[id]
	return home.Container, ok
}

func (f *world) Set(id, container string) {
	f.homes[id] = zdb.Home{Container: container, Reservation: &workload.Reservation{ID: id}}
}

func (f *world) All() (map[string]zdb.Home, error) { return maps.Clone(f.homes), f.unread }

func (f *world) Was(id string) (bool, error) { return f.was[id], nil }

package provision_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
)

// The published API: each name with its exact type. A break of it doesn't compile.
var (
	_ error                                                                                                = provision.ErrPollEOS
	_ func(*provision.Reservation) error                                                                   = provision.Verify
	_ func(context.Context) zbus.Client                                                                    = provision.GetZBus
	_ func(context.Context, zbus.Client) context.Context                                                   = provision.WithZBus
	_ func(context.Context) provision.OwnerCache                                                           = provision.GetOwnerCache
	_ func(context.Context, provision.OwnerCache) context.Context                                          = provision.WithOwnerCache
	_ func(context.Context) provision.ZDBMapping                                                           = provision.GetZDBMapping
	_ func(context.Context, provision.ZDBMapping) context.Context                                          = provision.WithZDBMapping
	_ func(provision.ReservationSource, provision.ReservationCache, provision.Feedbacker) provision.Engine = provision.New
	_ func(string) (*provision.FSStore, error)                                                             = provision.NewFSStore
	_ func(string) *provision.HTTPStore                                                                    = provision.NewHTTPStore
	_ func(provision.ReservationGetter, provision.ReservationGetter) provision.OwnerCache                  = provision.NewCache
	_ func(...provision.ReservationSource) provision.ReservationSource                                     = provision.CombinedSource
	_ func(provision.ReservationExpirer) provision.ReservationSource                                       = provision.NewDecommissionSource
	_ func(provision.ReservationPoller, pkg.Identifier) provision.ReservationSource                        = provision.PollSource
	_ func(*provision.FSStore, *provision.Reservation) error                                               = (*provision.FSStore).Add
	_ func(*provision.FSStore) error                                                                       = (*provision.FSStore).Close
	_ func(*provision.FSStore) pkg.ProvisionCounters                                                       = (*provision.FSStore).Counters
	_ func(*provision.FSStore, string) (bool, error)                                                       = (*provision.FSStore).Exists
	_ func(*provision.FSStore, string) (*provision.Reservation, error)                                     = (*provision.FSStore).Get
	_ func(*provision.FSStore) ([]*provision.Reservation, error)                                           = (*provision.FSStore).GetExpired
	_ func(*provision.FSStore, string) error                                                               = (*provision.FSStore).Remove
	_ func(*provision.HTTPStore, string) error                                                             = (*provision.HTTPStore).Delete
	_ func(*provision.HTTPStore, string) error                                                             = (*provision.HTTPStore).Deleted
	_ func(*provision.HTTPStore, string, *provision.Result) error                                          = (*provision.HTTPStore).Feedback
	_ func(*provision.HTTPStore, string) (*provision.Reservation, error)                                   = (*provision.HTTPStore).Get
	_ func(*provision.HTTPStore, pkg.Identifier, uint64) ([]*provision.Reservation, error)                 = (*provision.HTTPStore).Poll
	_ func(*provision.HTTPStore, *provision.Reservation) (string, error)                                   = (*provision.HTTPStore).Reserve
	_ func(*provision.Reservation) bool                                                                    = (*provision.Reservation).Expired
	_ func(*provision.Reservation, ed25519.PrivateKey) error                                               = (*provision.Reservation).Sign
	_ func(*provision.Reservation) (uint64, uint64, error)                                                 = (*provision.Reservation).SplitID
	_ func(*provision.Result) ([]byte, error)                                                              = (*provision.Result).Bytes
	_ func(provision.Tag) string                                                                           = provision.Tag.String
	_ provision.ReservationCache                                                                           = (*provision.FSStore)(nil)
	_ provision.ReservationExpirer                                                                         = (*provision.FSStore)(nil)
	_ provision.ReservationGetter                                                                          = (*provision.FSStore)(nil)
	_ provision.ReservationPoller                                                                          = (*provision.HTTPStore)(nil)
	_ provision.Feedbacker                                                                                 = (*provision.HTTPStore)(nil)
	_ provision.ReservationGetter                                                                          = (*provision.HTTPStore)(nil)
	_ interface {
		Run(ctx context.Context) error
		Counters(ctx context.Context) <-chan pkg.ProvisionCounters
	} = provision.Engine(nil)
	_ interface {
		OwnerOf(reservationID string) (string, error)
	} = provision.OwnerCache(nil)
	_ interface {
		Get(namespace string) (string, bool)
		Set(namespace, container string)
	} = provision.ZDBMapping(nil)
	_ interface{ Increment() int64 } = provision.Counter(nil)
	_ interface{ Decrement() int64 } = provision.Counter(nil)
	_ interface{ Current() int64 }   = provision.Counter(nil)

	// Every member with its type, by name.
	_ = provision.Reservation{ID: "", NodeID: "", User: "", Type: provision.ReservationType(""), Data: json.RawMessage{}, Created: time.Time{},
		Duration: time.Duration(0), Signature: []byte{}, ToDelete: false, Tag: provision.Tag{"k": "v"}}
	_ = provision.Result{Type: provision.VolumeReservation, ID: "", Created: time.Time{}, State: string(""), Error: "", Data: json.RawMessage{}, Signature: []byte{}}
	_ = provision.Container{FList: "", FlistStorage: "", Env: map[string]string{}, SecretEnv: map[string]string{}, Entrypoint: "", Interactive: false,
		Mounts: []provision.Mount{{VolumeID: "", Mountpoint: ""}}, Network: provision.Network{NetworkID: pkg.NetID(""), IPs: []net.IP{}, PublicIP6: false},
		Capacity: provision.ContainerCapacity{CPU: uint(0), Memory: uint64(0)}}
	_ = provision.ContainerResult{ID: "", IPv6: "", IPv4: ""}
	_ = provision.Volume{Size: uint64(0), Type: provision.DiskType("")}
	_ = provision.VolumeResult{ID: ""}
	_ = provision.ZDB{Size: uint64(0), Mode: pkg.ZDBMode(""), Password: "", DiskType: pkg.DeviceType(""), Public: false, PlainPassword: ""}
	_ = provision.ZDBResult{Namespace: "", IP: "", Port: uint(0)}
	_ = provision.Kubernetes{Size: uint8(0), NetworkID: pkg.NetID(""), IP: net.IP{}, ClusterSecret: "", MasterIPs: []net.IP{}, SSHKeys: []string{}, PlainClusterSecret: ""}
	_ = provision.KubernetesResult{ID: "", IP: ""}
	_ = provision.Debug{Host: "", Port: int(0), Channel: ""}
)

func TestConstantsAreThePublishedOnes(t *testing.T) {
	for value, want := range map[provision.ReservationType]string{
		provision.ContainerReservation: "container", provision.VolumeReservation: "volume", provision.NetworkReservation: "network",
		provision.ZDBReservation: "zdb", provision.DebugReservation: "debug", provision.KubernetesReservation: "kubernetes",
	} {
		if string(value) != want {
			t.Errorf("%q, want %q", value, want)
		}
	}
	if provision.HDDDiskType != "HDD" || provision.SSDDiskType != "SSD" || provision.ErrPollEOS.Error() != "end of stream" {
		t.Error("disk types or the end of stream have another value")
	}
}

func TestContextHelpers(t *testing.T) {
	empty := context.Background()
	if provision.GetZBus(empty) != nil || provision.GetOwnerCache(empty) != nil || provision.GetZDBMapping(empty) != nil {
		t.Error("an empty context holds something")
	}
	client, owners, mapping := bus.NewClient(bus.NewInProcess(), bus.Options{}), provision.NewCache(nil, nil), &namespaces{}
	ctx := provision.WithZDBMapping(provision.WithOwnerCache(provision.WithZBus(empty, client), owners), mapping)
	if provision.GetZBus(ctx) != zbus.Client(client) || provision.GetOwnerCache(ctx) != owners || provision.GetZDBMapping(ctx) != provision.ZDBMapping(mapping) {
		t.Error("a context doesn't return what was put into it")
	}
}

type namespaces struct{ provision.ZDBMapping }

// seedWorld is the parts that a user of New brings: a cache, a poller, a feedbacker.
type seedWorld struct {
	mu      sync.Mutex
	cached  map[string]*provision.Reservation
	results map[string]*provision.Result
	deleted []string
	batches [][]*provision.Reservation
	// before, when set, is called before each batch is returned.
	before func(batch int)
	polls  int
}

func (s *seedWorld) Add(r *provision.Reservation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached[r.ID] = r
	return nil
}

func (s *seedWorld) Get(id string) (*provision.Reservation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.cached[id]; ok {
		return r, nil
	}
	return nil, node.Errorf(node.NotExist, "cannot get %s: there is none", id)
}

func (s *seedWorld) Remove(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cached, id)
	return nil
}

func (s *seedWorld) Exists(id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.cached[id]
	return ok, nil
}

func (s *seedWorld) Counters() pkg.ProvisionCounters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pkg.ProvisionCounters{Volume: int64(len(s.cached))}
}

func (s *seedWorld) Feedback(id string, r *provision.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[id] = r
	return nil
}

func (s *seedWorld) Deleted(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, id)
	return nil
}

// Poll returns the batches, the last with the end of the stream.
func (s *seedWorld) Poll(pkg.Identifier, uint64) ([]*provision.Reservation, error) {
	if s.before != nil {
		s.before(s.polls)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls++
	if len(s.batches) == 0 {
		return nil, provision.ErrPollEOS
	}
	batch := s.batches[0]
	s.batches = s.batches[1:]
	if len(s.batches) == 0 {
		return batch, provision.ErrPollEOS
	}
	return batch, nil
}

// disks is the storage module on the bus.
type disks struct {
	*fakenode.Storage
	storage *storage
}

func (d disks) CreateFilesystem(s node.FilesystemSpec) (node.Filesystem, error) {
	return d.storage.CreateFilesystem(context.Background(), s)
}

func (d disks) ReleaseFilesystem(name string) error {
	return d.storage.ReleaseFilesystem(context.Background(), name)
}

func (d disks) ListFilesystems() ([]node.Filesystem, error) {
	return d.storage.ListFilesystems(context.Background())
}

// serve puts the modules on a bus, and returns a context with its client.
func (w *world) serve() context.Context {
	w.t.Helper()
	others, b := fakenode.New(w.t), bus.NewInProcess()
	client := bus.NewClient(b, bus.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for module, register := range map[string]func(s *bus.Server) error{
		node.IdentityModule: func(s *bus.Server) error {
			return bus.Register[node.IdentityManager](s, zbus.ObjectID{Name: node.IdentityObject, Version: node.IdentityVersion}, fakenode.NewIdentity(&fakenode.Calls{}, w.key))
		},
		node.StorageModule: func(s *bus.Server) error {
			return bus.Register[node.Storage](s, zbus.ObjectID{Name: node.StorageObject, Version: node.StorageVersion}, disks{w.storage.disk, w.storage})
		},
		node.ContainerModule: func(s *bus.Server) error {
			if err := bus.Register[node.Images](s, zbus.ObjectID{Name: node.ImageObject, Version: node.ImageVersion}, others.Images); err != nil {
				return err
			}
			return bus.Register[node.Containers](s, zbus.ObjectID{Name: node.ContainerObject, Version: node.ContainerVersion}, others.Containers)
		},
		node.NetworkModule: func(s *bus.Server) error {
			return bus.Register[node.Networks](s, zbus.ObjectID{Name: node.NetworkObject, Version: node.NetworkVersion}, others.Networks)
		},
		node.DebugModule: func(s *bus.Server) error {
			return bus.Register[node.Debug](s, zbus.ObjectID{Name: node.DebugObject, Version: node.DebugVersion}, others.Debug)
		},
		node.ZDBModule: func(s *bus.Server) error {
			return bus.Register[node.ZDBNamespaces](s, zbus.ObjectID{Name: node.ZDBObject, Version: node.ZDBVersion}, others.ZDB)
		},
	} {
		server, err := bus.NewServer(b, module, bus.Options{Log: zerolog.Nop()})
		if err != nil {
			w.t.Fatal(err)
		}
		if err := register(server); err != nil {
			w.t.Fatal(err)
		}
		running.Go(func() { _ = server.Run(ctx) })
	}
	w.t.Cleanup(func() {
		_ = client.Close()
		cancel()
		running.Wait()
		_ = b.Close()
	})
	return provision.WithZBus(ctx, client)
}

func TestAnEngineMadeByNew(t *testing.T) {
	for name, wrapped := range map[string]bool{"with FSStore": false, "with another cache": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			numbered := func(id string, edit func(r *workload.Reservation)) *provision.Reservation {
				r := w.reserve(provision.VolumeReservation, `{"size":1,"type":"SSD"}`, edit)
				r.ID = id
				return r
			}
			kept, doomed, gone := numbered("1-1", nil), numbered("2-1", nil), numbered("3-1", nil)
			forged := numbered("4-1", nil)
			forged.Duration *= 2
			refused := numbered("5-1", func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":0,"type":"SSD"}`) })
			deletion := *gone
			if err := deletion.SignDeletion(workload.Deletion{Created: time.Now()}, w.user.Private()); err != nil {
				t.Fatal(err)
			}
			seed := &seedWorld{cached: map[string]*provision.Reservation{}, results: map[string]*provision.Result{},
				batches: [][]*provision.Reservation{{kept, doomed, gone, forged, refused}, {&deletion}}}
			var cache provision.ReservationCache = seed
			if !wrapped {
				cache = w.records
			}
			engine := provision.New(provision.CombinedSource(provision.PollSource(seed, pkg.StrIdentifier(w.key.ID()))), cache, seed)
			counting, cancel := context.WithCancel(context.Background())
			counters := engine.Counters(counting)
			if first := <-counters; first.Volume != 0 {
				t.Errorf("counters begin at %+v", first)
			}
			if err := engine.Run(w.serve()); err != nil { // returns, because the source ends
				t.Fatal(err)
			}
			if names := w.storage.names(); !slices.Equal(names, []string{"1-1", "2-1"}) {
				t.Errorf("on the node is %v", names)
			}
			seed.check(t, w)
			if there, err := cache.Exists("1-1"); !there || err != nil {
				t.Errorf("1-1 in the cache: %t, %v", there, err)
			}
			if there, err := cache.Exists("3-1"); there || err != nil {
				t.Errorf("3-1 in the cache after its end: %t, %v", there, err)
			}
			latest := cache.Counters()
			if latest.Volume != 2 {
				t.Errorf("counters are %+v", latest)
			}
			cancel()
			for range counters {
				continue
			}
		})
	}
}

// A deletion cancelled the provisioning in flight, and its release overtook the creation
// inside the module: the user got "deleted", and the volume was made.
func TestDeletionOrderAfterCancelledEffect(t *testing.T) {
	w := newWorld(t)
	gone := w.reserve(provision.VolumeReservation, `{"size":1,"type":"SSD"}`, nil)
	gone.ID = "3-1"
	deletion := *gone
	if err := deletion.SignDeletion(workload.Deletion{Created: time.Now()}, w.user.Private()); err != nil {
		t.Fatal(err)
	}
	creating, released := make(chan struct{}), make(chan struct{})
	w.storage.hooked(func(call string) {
		switch call {
		case "create " + gone.ID:
			close(creating)
			select {
			case <-released: // it was overtaken
			case <-time.After(time.Second):
			}
		case "release " + gone.ID:
			close(released)
		}
	})
	seed := &seedWorld{cached: map[string]*provision.Reservation{}, results: map[string]*provision.Result{},
		batches: [][]*provision.Reservation{{gone}, {&deletion}},
		before: func(batch int) {
			if batch == 1 {
				<-creating
			}
		}}
	engine := provision.New(provision.CombinedSource(provision.PollSource(seed, pkg.StrIdentifier(w.key.ID()))), w.records, seed)
	if err := engine.Run(w.serve()); err != nil { // returns, because the source ends
		t.Fatal(err)
	}
	if names := w.storage.names(); len(names) > 0 || !slices.Equal(seed.deleted, []string{gone.ID}) {
		t.Errorf("on the node is %v, deleted: %v", names, seed.deleted)
	}
}

func (s *seedWorld) check(t *testing.T, w *world) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, state := range map[string]string{"1-1": "ok", "2-1": "ok", "5-1": "error"} {
		r := s.results[id]
		if r == nil || r.State != state || len(r.Signature) != ed25519.SignatureSize {
			t.Errorf("result of %s is %+v, want %s, signed", id, r, state)
		}
	}
	if _, told := s.results["4-1"]; told {
		t.Error("a forged reservation is answered")
	}
	if !slices.Equal(s.deleted, []string{"3-1"}) {
		t.Errorf("deleted: %v, want 3-1", s.deleted)
	}
	var data provision.VolumeResult
	if err := json.Unmarshal(s.results["1-1"].Data, &data); err != nil || data.ID != "1-1" {
		t.Errorf("data is %s", s.results["1-1"].Data)
	}
}

func TestNewWithoutItsPartsSaysSo(t *testing.T) {
	seed := &seedWorld{cached: map[string]*provision.Reservation{}, results: map[string]*provision.Result{}}
	source := provision.PollSource(seed, pkg.StrIdentifier("node"))
	for name, engine := range map[string]provision.Engine{
		"bus":    provision.New(source, seed, seed),
		"source": provision.New(nil, seed, seed),
		"cache":  provision.New(source, nil, seed),
		"fb":     provision.New(source, seed, nil),
	} {
		if err := engine.Run(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "cannot ") {
			t.Errorf("without %s: %v", name, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		counters := engine.Counters(ctx)
		cancel()
		for range counters {
			continue
		}
	}
}

func TestVerifyReadsTheVersion(t *testing.T) {
	w := newWorld(t)
	for _, version := range []int{workload.V1, workload.V2} {
		r := w.reserve(provision.VolumeReservation, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) { r.Version = version })
		if err := provision.Verify(r); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
		r.Type = provision.ZDBReservation
		if provision.Verify(r) == nil {
			t.Errorf("version %d: a changed one verifies", version)
		}
	}
}

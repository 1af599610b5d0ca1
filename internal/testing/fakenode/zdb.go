package fakenode

import (
	"path"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// ZDB is the zdb module and the zdbs in its containers. It implements
// node.ZDBNamespaces; Dial connects to a zdb as a user does.
type ZDB struct {
	calls *Calls
	mu    sync.Mutex
	// started is signalled when a zdb starts.
	started *sync.Cond
	// zdbs are the running zdbs, by container; data what is on volumes, by path.
	zdbs map[string]zdb
	data map[string]map[string]*namespace
	// servers are the attached containers.
	servers     map[string]node.ZDBServer
	first, last uint16
	ipv4, ipv6  string
	// silent is how many calls of Attach a zdb doesn't answer yet.
	silent int
}

var _ node.ZDBNamespaces = (*ZDB)(nil)

// zdb is a running zdb.
type zdb struct {
	mode workload.ZDBMode
	data string
}

// namespace is a namespace with its values.
type namespace struct {
	spec   node.ZDBNamespaceSpec
	values map[string]string
	last   uint64
}

func (n *namespace) used() (sum uint64) {
	for _, v := range n.values {
		sum += uint64(len(v))
	}
	return sum
}

// NewZDB has no zdbs, and gives the ports from first to last.
func NewZDB(calls *Calls, first, last uint16) *ZDB {
	z := &ZDB{
		calls: calls, zdbs: map[string]zdb{}, data: map[string]map[string]*namespace{}, servers: map[string]node.ZDBServer{},
		first: first, last: last, ipv4: "192.0.2.7", ipv6: "2001:db8::7",
	}
	z.started = sync.NewCond(&z.mu)
	return z
}

// Attach implements node.ZDBNamespaces.
func (z *ZDB) Attach(spec node.ZDBServerSpec) (node.ZDBServer, error) {
	return answer(z.calls, "ZDB.Attach", spec.Container, func() (node.ZDBServer, error) {
		if err := checkServer(spec); err != nil {
			return node.ZDBServer{}, err
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		for id, other := range z.servers {
			if id != spec.Container && other.Data == spec.Data {
				return node.ZDBServer{}, node.Errorf(node.Invalid, "cannot attach zdb %s: Data is %s, must be another one than that of zdb %s", spec.Container, spec.Data, id)
			}
		}
		runs, ok := z.zdbs[spec.Container]
		silent := z.silent > 0
		if silent {
			z.silent--
		}
		server, had := z.servers[spec.Container]
		switch {
		case had && server.Mode != spec.Mode, ok && !silent && runs.mode != spec.Mode:
			return node.ZDBServer{}, node.Errorf(node.Exist, "cannot attach zdb %s: it is of another mode, must be %s", spec.Container, spec.Mode)
		case !ok || silent || runs.data != spec.Data:
			return node.ZDBServer{}, node.Errorf(node.Transient, "cannot attach zdb %s: it doesn't answer", spec.Container)
		}
		if !had {
			server = node.ZDBServer{Container: spec.Container, Mode: spec.Mode, Port: z.freePort()}
		}
		if server.Port == 0 {
			return node.ZDBServer{}, node.Errorf(node.NoSpace, "cannot attach zdb %s: all ports from %d to %d are in use", spec.Container, z.first, z.last)
		}
		server.Data = spec.Data
		z.servers[spec.Container] = server
		return z.server(server), nil
	})
}

func checkServer(spec node.ZDBServerSpec) error {
	if err := checkName("attach zdb", spec.Container); err != nil {
		return err
	}
	if spec.Mode != workload.ZDBUser && spec.Mode != workload.ZDBSeq {
		return node.Errorf(node.Invalid, "cannot attach zdb %s: mode is %q, must be user or seq", spec.Container, spec.Mode)
	}
	if d := spec.Data; !path.IsAbs(d) || path.Clean(d) != d || d == "/" || strings.Contains(d, "\x00") {
		return node.Errorf(node.Invalid, "cannot attach zdb %s: Data is %q, must be an absolute path", spec.Container, clip.Text(d, 80))
	}
	return nil
}

// freePort is the lowest free port, 0 when there is none.
func (z *ZDB) freePort() uint16 {
	taken := map[uint16]bool{}
	for _, s := range z.servers {
		taken[s.Port] = true
	}
	for p := z.first; p <= z.last; p++ {
		if !taken[p] {
			return p
		}
	}
	return 0
}

// server is an attached container with its present state.
func (z *ZDB) server(s node.ZDBServer) node.ZDBServer {
	s.IPv4, s.IPv6, s.Namespaces = z.ipv4, z.ipv6, uint64(len(z.data[s.Data]))
	if z.zdbs[s.Container].data != s.Data {
		s.Drift = "its zdb doesn't answer"
	}
	return s
}

// Detach implements node.ZDBNamespaces.
func (z *ZDB) Detach(container string) error {
	return carryOut(z.calls, "ZDB.Detach", container, func() error {
		if err := checkName("detach zdb", container); err != nil {
			return err
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		return drop(z.servers, container, "detach zdb")
	})
}

// Servers implements node.ZDBNamespaces.
func (z *ZDB) Servers() ([]node.ZDBServer, error) {
	return answer(z.calls, "ZDB.Servers", "", func() ([]node.ZDBServer, error) {
		z.mu.Lock()
		defer z.mu.Unlock()
		out := []node.ZDBServer{}
		for _, id := range sorted(z.servers) {
			out = append(out, z.server(z.servers[id]))
		}
		return out, nil
	})
}

// Create implements node.ZDBNamespaces.
func (z *ZDB) Create(spec node.ZDBNamespaceSpec) (node.ZDBNamespace, error) {
	return answer(z.calls, "ZDB.Create", spec.Name, func() (node.ZDBNamespace, error) {
		what, claim := "create namespace "+spec.Name, node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
		if err := checkNamespace(spec); err != nil {
			return node.ZDBNamespace{}, err
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		server, all, err := z.inside(what, spec.Container)
		if err != nil {
			return node.ZDBNamespace{}, err
		}
		n, ok := all[spec.Name]
		if ok {
			if err := claim.Check(what, n.spec.Hash); err != nil {
				return node.ZDBNamespace{}, err
			}
		} else {
			n = &namespace{values: map[string]string{}}
			all[spec.Name] = n
		}
		n.spec = spec
		n.spec.AdoptUnlabelled = false
		return n.info(server), nil
	})
}

func checkNamespace(spec node.ZDBNamespaceSpec) error {
	if err := checkBoth("create namespace", spec.Container, spec.Name); err != nil {
		return err
	}
	if spec.Size == 0 || spec.Size > 1<<63-1 {
		return node.Errorf(node.Invalid, "cannot create namespace %s: data.size is %d bytes, must be from 1 to 2^63-1", spec.Name, spec.Size)
	}
	control := strings.ContainsFunc(spec.Password, func(r rune) bool { return r < ' ' || r == 0x7f })
	if len(spec.Password) > 63 || control || spec.Password == "*" || !utf8.ValidString(spec.Password) {
		return node.Errorf(node.Invalid, "cannot create namespace %s: data.password must be up to 63 bytes of text, and not *", spec.Name)
	}
	return node.Claim{Hash: spec.Hash}.Valid("create namespace " + spec.Name)
}

func checkBoth(what, container, name string) error {
	if err := checkName(what, container); err != nil {
		return err
	}
	if name == "default" {
		return node.Errorf(node.Invalid, "cannot %s %q: it is the zdb's own", what, name)
	}
	return checkName(what, name)
}

// Delete implements node.ZDBNamespaces.
func (z *ZDB) Delete(container, name string) error {
	return carryOut(z.calls, "ZDB.Delete", name, func() error {
		if err := checkBoth("delete namespace", container, name); err != nil {
			return err
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		_, all, err := z.inside("delete namespace "+name, container)
		if err != nil {
			return err
		}
		return drop(all, name, "delete namespace")
	})
}

// Inspect implements node.ZDBNamespaces.
func (z *ZDB) Inspect(container, name string) (node.ZDBNamespace, error) {
	return answer(z.calls, "ZDB.Inspect", name, func() (node.ZDBNamespace, error) {
		if err := checkBoth("find namespace", container, name); err != nil {
			return node.ZDBNamespace{}, err
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		server, all, err := z.inside("find namespace "+name, container)
		if err != nil {
			return node.ZDBNamespace{}, err
		}
		n, ok := all[name]
		if !ok {
			return node.ZDBNamespace{}, node.Errorf(node.NotExist, "cannot find namespace %s: there is none", name)
		}
		return n.info(server), nil
	})
}

// List implements node.ZDBNamespaces.
func (z *ZDB) List(container string) ([]node.ZDBNamespace, error) {
	return answer(z.calls, "ZDB.List", container, func() ([]node.ZDBNamespace, error) {
		z.mu.Lock()
		defer z.mu.Unlock()
		asked := []string{container}
		if container == "" {
			asked = sorted(z.servers)
		} else if err := checkName("list namespaces of zdb", container); err != nil {
			return nil, err
		}
		out := []node.ZDBNamespace{}
		for _, id := range asked {
			server, all, err := z.inside("list namespaces", id)
			if err != nil {
				return nil, err
			}
			for _, name := range sorted(all) {
				out = append(out, all[name].info(server))
			}
		}
		return out, nil
	})
}

// inside returns an attached server that answers, and its namespaces. The caller holds mu.
func (z *ZDB) inside(what, container string) (node.ZDBServer, map[string]*namespace, error) {
	s, ok := z.servers[container]
	if !ok {
		return s, nil, node.Errorf(node.NotExist, "cannot %s in zdb %s: it isn't attached", what, container)
	}
	if z.zdbs[container].data != s.Data || z.data[s.Data] == nil {
		return s, nil, node.Errorf(node.Transient, "cannot %s in zdb %s: it doesn't answer", what, container)
	}
	return s, z.data[s.Data], nil
}

func (n *namespace) info(s node.ZDBServer) node.ZDBNamespace {
	return node.ZDBNamespace{
		Container: s.Container, Name: n.spec.Name, Mode: s.Mode, Size: n.spec.Size, Used: n.used(), Disk: n.used(),
		Public: n.spec.Public, Protected: n.spec.Password != "", Hash: n.spec.Hash,
	}
}

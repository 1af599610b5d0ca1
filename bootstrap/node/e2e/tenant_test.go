//go:build boot

package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// tenant is a user's workloads on nodes: a network over all, a container with a volume on each, and a zdb namespace on each.
type tenant struct {
	s      *site
	places []*place
}

// place is what a tenant has on a node.
type place struct {
	s    *site
	n    *node
	part *nodetest.Part
	// ip is the container's, spareIP free for another one.
	ip, spareIP                     string
	network, volume, container, zdb *workload.Reservation
	// written are the keys that zdb has answered for before the power cut.
	written []written
}

// written is a key that zdb has answered for.
type written struct {
	key string
	// at is the time of the answer.
	at time.Time
}

const password = "s3cr3t"

// lastWrites is the time before a power cut whose writes to zdb may be lost where it doesn't sync each: its second, on an emulated processor.
const lastWrites = 4 * time.Second

// lasting is long enough for every test.
const lasting = 24 * time.Hour

// newTenant reserves all on the nodes, and has a laptop in the network by a tunnel to the first of them.
func newTenant(s *site, nodes ...*node) *tenant {
	s.Helper()
	u := &tenant{s: s}
	laptop := s.Part(nil, "10.1.9.0/24", 0, "")
	parts := []*nodetest.Part{}
	for i, n := range nodes {
		part := s.Part(n.Node, fmt.Sprintf("10.1.%d.0/24", i+1), wireGuard, fmt.Sprintf("%s:%d", n.ip, wireGuard))
		u.places = append(u.places, &place{s: s, n: n, part: part, ip: fmt.Sprintf("10.1.%d.10", i+1), spareIP: fmt.Sprintf("10.1.%d.11", i+1)})
		parts = append(parts, part)
	}
	// The laptop speaks to the first node only, which forwards.
	parts[0].Behind = []string{laptop.Subnet}
	for _, part := range parts[1:] {
		part.Apart, laptop.Apart = append(part.Apart, laptop), append(laptop.Apart, part)
	}
	for i, r := range s.Networks(s.User, "net1", append(parts, laptop)...) {
		r.Duration = lasting
		s.must(r.Sign(s.User.Private()))
		u.places[i].network = s.Push(r)
	}
	for _, p := range u.places {
		p.reserve()
	}
	s.WGQuick(s.laptop, "laptop", fmt.Sprintf("[Interface]\nPrivateKey = %s\nAddress = 10.1.9.1/32\n[Peer]\nPublicKey = %s\nAllowedIPs = 10.1.0.0/16\nEndpoint = %s:%d\nPersistentKeepalive = 5\n",
		laptop.Private, parts[0].Public, nodes[0].ip, wireGuard))
	for _, p := range u.places {
		for _, r := range p.all() {
			s.Result(r, workload.StateOK)
		}
	}
	return u
}

// emulated is what QEMU's virtio disks say that they are.
const emulated = workload.HDD

// volume is a reservation for a volume of 1 GiB.
func (s *site) volume(n *node, d time.Duration) *workload.Reservation {
	s.Helper()
	return s.VolumeOn(emulated, n.ID, 1, d)
}

// reserve reserves all but the network.
func (p *place) reserve() {
	s := p.s
	s.Helper()
	if p.n.diskless() { // its pool has room for a container alone
		p.container = s.Push(p.server(p.ip))
		return
	}
	p.volume = s.Push(s.volume(p.n, lasting))
	p.container = s.Push(p.server(p.ip, nodetest.Mount(p.volume, "/data")))
	p.zdb = s.Push(p.namespace())
}

// server is a reservation for a container in the tenant's network, with a server.
func (p *place) server(ip string, mounts ...workload.Mount) *workload.Reservation {
	p.s.Helper()
	return p.lasting(p.s.Container(p.n.Node, func(c *workload.Container) {
		c.FList, c.Network.IPs = server, []net.IP{net.ParseIP(ip).To4()}
		c.Mounts = append(c.Mounts, mounts...)
	}))
}

// namespace is a reservation for a zdb namespace of 1 GiB.
func (p *place) namespace() *workload.Reservation {
	p.s.Helper()
	return p.lasting(p.s.ZDB(p.n.Node, func(z *workload.ZDB) { z.PlainPassword, z.DiskType = password, emulated }))
}

// lasting signs a reservation anew, for longer.
func (p *place) lasting(r *workload.Reservation) *workload.Reservation {
	p.s.Helper()
	r.Duration = lasting
	p.s.must(r.Sign(p.s.User.Private()))
	return r
}

func (p *place) all() []*workload.Reservation {
	all := []*workload.Reservation{p.network, p.volume, p.container, p.zdb}
	return slices.DeleteFunc(all, func(r *workload.Reservation) bool { return r == nil })
}

// url is a page of the container's server.
func (p *place) url(path string) string { return page(p.ip, path) }

// page is a page of the server in the container of that address.
func page(ip, path string) string { return "http://" + ip + ":8080" + path }

// ask asks the container from the laptop.
func (p *place) ask(method, path, body string) (string, error) {
	return p.s.Do(p.s.laptop.Path(), method, p.url(path), body, 10*time.Second)
}

// answers waits until the container answers the laptop.
func (p *place) answers() {
	p.s.Helper()
	began := time.Now()
	p.s.until("the container answers through the tunnel", func() error {
		_, err := p.ask(http.MethodGet, "/", "")
		return err
	})
	p.s.Logf("the container on %s answers through the tunnel after %s", p.n.ip, since(began))
}

// note writes a note into the volume, to the disk; noted holds that it is there.
func (p *place) note(text string) {
	p.s.Helper()
	if _, err := p.ask(http.MethodPut, "/write?path=/data/note", text); err != nil {
		p.s.Fatal(err)
	}
	p.n.hand.sync()
}

func (p *place) noted(text string) {
	p.s.Helper()
	if got, err := p.ask(http.MethodGet, "/read?path=/data/note", ""); err != nil || got != text {
		p.s.Errorf("the volume has the note %q (%v), want %q", got, err, text)
	}
}

// reaches holds that this container reaches another place's, and returns how long that took.
func (p *place) reaches(other *place) time.Duration {
	p.s.Helper()
	began := time.Now()
	p.s.until("the container on "+p.n.ip+" reaches the one on "+other.n.ip, func() error {
		_, err := p.ask(http.MethodGet, "/get?url="+url.QueryEscape(other.url("/")), "")
		return err
	})
	return since(began)
}

// openZDB connects to the namespace, at the node's own address.
func (p *place) openZDB() (redis.Conn, error) { return p.openNamespace(p.zdb) }

func (p *place) openNamespace(r *workload.Reservation) (redis.Conn, error) {
	at := p.s.ZDBResult(r)
	address := nodetest.ZDBAddress(workload.ZDBResult{IP: p.n.ip, Port: at.Port})
	return p.s.SelectZDB(p.s.laptop.Path(), address, at.Namespace, password)
}

// writeUntil writes to zdb one key after the other until the connection breaks, and calls begun once some are written.
func (p *place) writeUntil(conn redis.Conn, begun func()) {
	start, once := time.Now(), sync.Once{}
	for i := 0; ; i++ {
		key := fmt.Sprintf("key-%d", i)
		if _, err := conn.Do("SET", key, strings.Repeat(key, 20)); err != nil {
			return
		}
		p.written = append(p.written, written{key, time.Now()})
		if i >= 50 && time.Since(start) > 2*lastWrites {
			once.Do(begun)
		}
	}
}

// cutWhileWriting cuts the node's power while zdb is written to, and returns when.
func (p *place) cutWhileWriting() time.Time {
	p.s.Helper()
	conn, err := p.openZDB()
	p.s.must(err)
	var wait sync.WaitGroup
	begun := make(chan struct{})
	wait.Go(func() { p.writeUntil(conn, func() { close(begun) }) })
	select {
	case <-begun:
	case <-time.After(patience):
		p.s.Fatal("zdb doesn't take 50 keys")
	}
	at := time.Now()
	p.n.m.Cut(p.s.random)
	conn.Close()
	wait.Wait()
	p.s.Logf("zdb has answered for %d keys", len(p.written))
	return at
}

// kept holds that zdb has every key that it has answered for until a time; at is the namespace's address before, which stays.
func (p *place) kept(address, namespace string, until time.Time) {
	p.s.Helper()
	var conn redis.Conn
	p.s.until("zdb answers", func() (err error) {
		conn, err = p.s.SelectZDB(p.s.laptop.Path(), address, namespace, password)
		return err
	})
	defer conn.Close()
	late, lost := 0, 0
	for _, w := range p.written {
		got, err := redis.String(conn.Do("GET", w.key))
		whole := err == nil && got == strings.Repeat(w.key, 20)
		switch {
		case w.at.After(until) && !whole:
			lost++
			late++
		case w.at.After(until):
			late++
		case !whole:
			p.s.Errorf("zdb has lost %s, for which it had answered: %q, %v", w.key, got, err)
			return
		}
	}
	p.s.Logf("zdb has the %d keys for which it answers; of %d later ones %d are lost", len(p.written)-late, late, lost)
}

package dial

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/croft-edge/croft/pkg/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func none() []netip.Prefix { return nil }

// newDialer makes a dialer with no own ranges, unless c says so, and the exceptions.
func newDialer(t *testing.T, c Config, exceptions ...string) *Dialer {
	t.Helper()
	if c.Own == nil {
		c.Own = none
	}
	c.Log = zerolog.New(zerolog.NewTestWriter(t))
	for _, text := range exceptions {
		e, err := ParseException(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Allow = append(c.Allow, e)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// door is a listener on loopback that counts connections.
type door struct {
	net.Listener
	came atomic.Int32
}

func (d *door) port() string {
	_, port, _ := net.SplitHostPort(d.Addr().String())
	return port
}

func newDoor(t *testing.T, address string) *door {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: listener}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			d.came.Add(1)
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return d
}

// nameServer is a DNS server on loopback. Each question for a name takes the
// next of its scripted answers, the last one for ever; "" answers nothing.
type nameServer struct {
	addr    string
	mu      sync.Mutex
	answers map[string][]string
	asked   []string
}

func newNameServer(t *testing.T, answers map[string][]string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{addr: conn.LocalAddr().String(), answers: answers}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := s.reply(buf[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return s
}

// resolver asks this server and no other. Go's resolver would read on for
// seconds after its cancellation; here it stops, so that a leak is one of ours.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "udp", s.addr)
		if err == nil {
			context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
		}
		return conn, err
	}}
}

// count is the number of queries for a name, of type A or AAAA.
func (s *nameServer) count(name, kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.asked {
		if q == name+" "+kind {
			n++
		}
	}
	return n
}

func (s *nameServer) reply(request []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(request) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	kind := strings.TrimPrefix(q.Type.String(), "Type")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, name+" "+kind)
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	script, known := s.answers[name+" "+kind]
	if len(script) > 1 {
		s.answers[name+" "+kind] = script[1:]
	}
	switch {
	case known && script[0] == "silence":
		return nil
	case known:
		for _, text := range strings.Fields(script[0]) {
			m.Answers = append(m.Answers, resource(q, netip.MustParseAddr(text)))
		}
	case s.answers[name+" A"] == nil && s.answers[name+" AAAA"] == nil:
		m.RCode = dnsmessage.RCodeNameError
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

func resource(q dnsmessage.Question, addr netip.Addr) dnsmessage.Resource {
	r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}}
	if q.Type == dnsmessage.TypeA {
		r.Body = &dnsmessage.AResource{A: addr.As4()}
	} else {
		r.Body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
	}
	return r
}

func dialNow(t *testing.T, d *Dialer, network, address string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		conn.Close()
	}
	return err
}

// wantError checks the kind, the beginning, and the parts of an error's text.
func wantError(t *testing.T, err error, kind node.Kind, parts ...string) {
	t.Helper()
	if node.KindOf(err) != kind {
		t.Fatalf("want %s, got %s: %v", kind, node.KindOf(err), err)
	}
	if !strings.HasPrefix(err.Error(), "cannot ") {
		t.Errorf("doesn't start with cannot: %v", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("doesn't say %q: %v", part, err)
		}
	}
}

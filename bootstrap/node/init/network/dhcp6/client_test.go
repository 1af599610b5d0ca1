package dhcp6

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/server6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
	"github.com/croft-edge/croft/internal/testing/netlab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server gives fd00::9 for some seconds, and remembers what it was asked.
type server struct {
	mu    sync.Mutex
	asked map[dhcpv6.MessageType]int
	// only are the messages that it answers; nil for all.
	only map[dhcpv6.MessageType]bool
}

func (s *server) handle(conn net.PacketConn, peer net.Addr, d dhcpv6.DHCPv6) {
	m, ok := d.(*dhcpv6.Message)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[m.MessageType]++
	if s.only != nil && !s.only[m.MessageType] {
		return
	}
	answer := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, TransactionID: m.TransactionID}
	if m.MessageType == dhcpv6.MessageTypeSolicit {
		answer.MessageType = dhcpv6.MessageTypeAdvertise
	}
	answer.AddOption(dhcpv6.OptClientID(m.Options.ClientID()))
	answer.AddOption(dhcpv6.OptServerID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}))
	dhcpv6.WithIANA(dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("fd00::9"), PreferredLifetime: 6 * time.Second, ValidLifetime: 6 * time.Second})(answer)
	conn.WriteTo(answer.ToBytes(), peer)
}

func (s *server) count(kind dhcpv6.MessageType) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[kind]
}

func (s *server) answerOnly(kinds ...dhcpv6.MessageType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.only = map[dhcpv6.MessageType]bool{}
	for _, k := range kinds {
		s.only[k] = true
	}
}

// A lease is renewed, then rebound where its server doesn't answer, given up at its end, and got again.
func TestRenewal(t *testing.T) {
	lab := netlab.New(t)
	a, b := lab.Namespace("node"), lab.Namespace("server")
	lab.Veth(a, "eth0", b, "eth0")
	s := &server{asked: map[dhcpv6.MessageType]int{}}
	var listener *server6.Server
	b.Do(func() {
		var err error
		if listener, err = server6.NewServer("eth0", nil, s.handle); err != nil {
			t.Fatal(err)
		}
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		listener.Serve()
	}()
	defer func() {
		listener.Close()
		<-served
	}()
	var mu sync.Mutex
	var held *lease.Lease
	var trouble error
	link := a.Link("eth0").Attrs()
	c := New(Config{
		Name: "eth0", Index: link.Index, MAC: link.HardwareAddr, Address: true, Log: zerolog.Nop(),
		Apply:   func(l *lease.Lease) { mu.Lock(); held = l; mu.Unlock() },
		Trouble: func(err error) { mu.Lock(); trouble = err; mu.Unlock() },
		Within: func(f func() error) (err error) {
			a.Do(func() { err = f() })
			return err
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	defer func() {
		stop()
		<-done
	}()
	has := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return held != nil && held.Addresses[0].String() == "fd00::9/128"
	}
	settle(t, "there is an address", has)
	solicits := s.count(dhcpv6.MessageTypeSolicit)
	settle(t, "it is renewed twice", func() bool { return s.count(dhcpv6.MessageTypeRenew) >= 2 })
	s.answerOnly(dhcpv6.MessageTypeRebind)
	settle(t, "it is rebound", func() bool { return s.count(dhcpv6.MessageTypeRebind) >= 1 })
	settle(t, "the address is still there", has)
	if now := s.count(dhcpv6.MessageTypeSolicit); now != solicits {
		t.Errorf("%d times a server was looked for after the first lease, want never", now-solicits)
	}
	s.answerOnly()
	settle(t, "it is given up", func() bool { return !has() })
	mu.Lock()
	if trouble == nil {
		t.Error("no trouble is told")
	}
	mu.Unlock()
	s.answerOnly(dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest)
	settle(t, "it is there again", has)
}

func settle(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("it isn't so that %s", what)
}

package main_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/croft-edge/croft/pkg/netns"
)

// Timeouts. Permitted probes are repeated; each forbidden one costs quiet, all at the same time.
const (
	patience = time.Minute
	quiet    = time.Second
	atOnce   = 48
)

// probes are sent between network namespaces, which are files.
type probes struct {
	testing.TB
	last atomic.Int64
	mu   sync.Mutex
	// heard are the texts that reached their destination.
	heard map[string]bool
}

func newProbes(t testing.TB) *probes { return &probes{TB: t, heard: map[string]bool{}} }

// token is a text unique to one probe.
func (p *probes) token() string { return fmt.Sprintf("probe-%d", p.last.Add(1)) }

func (p *probes) came(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard[text]
}

// serve answers on TCP and UDP, at all addresses of a namespace, with a name.
func (p *probes) serve(ns, name string, ports ...int) {
	p.Helper()
	for _, port := range ports {
		at := netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)).String()
		var listener net.Listener
		var packets net.PacketConn
		err := netns.Do(ns, func() (err error) {
			if listener, err = net.Listen("tcp", at); err == nil {
				packets, err = net.ListenPacket("udp", at)
			}
			return err
		})
		if err != nil {
			p.Fatal(err)
		}
		var done sync.WaitGroup
		p.Cleanup(func() {
			listener.Close()
			packets.Close()
			done.Wait()
		})
		done.Go(func() { answerTCP(listener, name) })
		done.Go(func() { p.answerUDP(packets, name) })
	}
}

func answerTCP(listener net.Listener, name string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte(name))
		conn.Close()
	}
}

func (p *probes) answerUDP(packets net.PacketConn, name string) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of an earlier answer
		}
		p.mu.Lock()
		p.heard[string(buffer[:n])] = true
		p.mu.Unlock()
		_, _ = packets.WriteTo([]byte(name), from)
	}
}

// flow is one probe.
type flow struct {
	sender, receiver string
	// from is a namespace, source the address used there, to an address.
	from, source, to string
	// kind is tcp, udp, ping, dns (a question by UDP) or http.
	kind string
	port int
}

// try sends a probe once and returns whether it arrived, and who answered.
func (p *probes) try(f flow, wait time.Duration) (arrived bool, who string) {
	at := net.JoinHostPort(f.to, strconv.Itoa(f.port))
	switch f.kind {
	case "tcp":
		who = p.ask(f, "tcp", at, "", wait)
		return who != "", who
	case "http":
		return strings.HasPrefix(p.ask(f, "tcp", at, "GET /livez HTTP/1.0\r\n\r\n", wait), "HTTP/1."), ""
	case "udp":
		text := p.token()
		who = p.ask(f, "udp", at, text, wait)
		return p.came(text), who
	case "dns":
		query, err := new(dns.Msg).SetQuestion("1.2.1.10.in-addr.arpa.", dns.TypePTR).Pack()
		if err != nil {
			p.Fatal(err)
		}
		return p.ask(f, "udp", at, string(query), wait) != "", ""
	case "ping":
		return p.ping(f, wait), ""
	}
	p.Fatalf("no probe for %q", f.kind)
	return false, ""
}

// ask sends text and returns the answer.
func (p *probes) ask(f flow, network, at, text string, wait time.Duration) string {
	ctx, cancel := context.WithTimeout(p.Context(), wait)
	defer cancel()
	dialer := net.Dialer{FallbackDelay: -1}
	if f.source != "" {
		source := netip.AddrPortFrom(netip.MustParseAddr(f.source), 0)
		dialer.LocalAddr = net.TCPAddrFromAddrPort(source)
		if network == "udp" {
			dialer.LocalAddr = net.UDPAddrFromAddrPort(source)
		}
	}
	var conn net.Conn
	err := netns.Do(f.from, func() (err error) {
		conn, err = dialer.DialContext(ctx, network, at)
		return err
	})
	if err != nil {
		return ""
	}
	defer conn.Close()
	buffer := make([]byte, 512)
	for end := time.Now().Add(wait); time.Now().Before(end); {
		// A packet may be lost or refused: it is sent again.
		if _, err := conn.Write([]byte(text)); err != nil && network == "tcp" {
			return ""
		}
		step := wait
		if network == "udp" {
			step = min(wait, quiet/3)
		}
		_ = conn.SetReadDeadline(time.Now().Add(step))
		n, err := conn.Read(buffer)
		if n > 0 {
			return string(buffer[:n])
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return ""
		}
	}
	return ""
}

func (p *probes) ping(f flow, wait time.Duration) bool {
	to := netip.MustParseAddr(f.to)
	network, listen, number := "ip4:icmp", "0.0.0.0", 1
	var kind, reply icmp.Type = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
	if to.Is6() {
		network, listen, number = "ip6:ipv6-icmp", "::", 58
		kind, reply = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	var conn *icmp.PacketConn
	err := netns.Do(f.from, func() (err error) {
		conn, err = icmp.ListenPacket(network, listen)
		return err
	})
	if err != nil {
		p.Error(err)
		return false
	}
	defer conn.Close()
	text := p.token()
	message, err := (&icmp.Message{Type: kind, Body: &icmp.Echo{ID: int(p.last.Load()), Data: []byte(text)}}).Marshal(nil)
	if err != nil {
		p.Error(err)
		return false
	}
	if _, err := conn.WriteTo(message, &net.IPAddr{IP: to.AsSlice()}); err != nil {
		return false
	}
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	buffer := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return false
		}
		got, err := icmp.ParseMessage(number, buffer[:n])
		if err != nil || got.Type != reply {
			continue
		}
		if echo, ok := got.Body.(*icmp.Echo); ok && string(echo.Data) == text {
			return true
		}
	}
}

// all runs one of each row's flows after the other, and many rows concurrently.
func (p *probes) all(rows []row, of func(r row) []flow, judge func(r row, f flow)) {
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, r := range rows {
		for _, f := range of(r) {
			places <- struct{}{}
			running.Go(func() {
				defer func() { <-places }()
				judge(r, f)
			})
		}
	}
	running.Wait()
}

// mustPass fails for each flow that doesn't arrive.
func (p *probes) mustPass(what string, rows []row, of func(r row) []flow) {
	p.Helper()
	p.all(rows, of, func(r row, f flow) {
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if arrived, _ := p.try(f, quiet); arrived {
				return
			}
		}
		p.Errorf("%s: %s: doesn't pass", what, r.say(f))
	})
}

// mustNot fails for each flow that arrives.
func (p *probes) mustNot(rows []row, of func(r row) []flow) {
	p.Helper()
	p.all(rows, of, func(r row, f flow) {
		if arrived, who := p.try(f, quiet); arrived {
			p.Errorf("forbidden: %s: passes (%s)", r.say(f), who)
		}
	})
}

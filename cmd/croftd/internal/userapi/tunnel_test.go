package userapi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/explorer"
	"github.com/croft-edge/croft/explorer/api"
	client "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
)

// hidden is a node that is reached only through a real explorer, behind a proxy that records the
// traffic.
type hidden struct {
	*world
	db    string
	proxy *proxy

	mu   sync.Mutex
	stop func()
}

// proxy forwards TCP to the explorer's current address, and records the bytes.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex
	target   string
	seen     bytes.Buffer
	conns    sync.WaitGroup
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{listener: must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))}
	p.conns.Go(func() {
		for {
			near, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.carry(near) })
		}
	})
	return p
}

func (p *proxy) carry(near net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil {
		_ = near.Close()
		return
	}
	far = tap{far, &p.mu, &p.seen}
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		ways.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			_ = near.Close()
			_ = far.Close()
		})
	}
	ways.Wait()
}

func (p *proxy) point(at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = at
}

func (p *proxy) saw(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.seen.Bytes(), []byte(text))
}

func (h *hidden) url() string { return "http://" + h.proxy.listener.Addr().String() }

// hide makes the node's door reachable only through an explorer.
func hide(w *world) *hidden {
	w.Helper()
	h := &hidden{world: w, db: filepath.Join(w.TempDir(), "explorer.db"), proxy: newProxy(w.T)}
	h.start()
	owner := h.client(client.RoleNode, w.node)
	if err := owner.RegisterNode(w.Context(), client.Node{NodeID: w.node.ID()}); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	keeper := userapi.Keeper{
		Open: func(ctx context.Context) (net.Conn, error) { return owner.OpenTunnel(ctx, w.node.ID()) },
		Take: w.door.Take, Pause: 10 * time.Millisecond, MaxPause: 100 * time.Millisecond, Log: zerolog.New(w.log),
	}
	kept := make(chan error, 1)
	go func() { kept <- keeper.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-kept; err != nil {
			w.Error(err)
		}
		h.down()
		_ = h.proxy.listener.Close()
		h.proxy.conns.Wait()
	})
	return h
}

func (h *hidden) start() {
	h.Helper()
	policy := api.DefaultPolicy()
	policy.KeyRate, policy.AddressRate = 0, 0
	s := must[*explorer.Service](h.T)(explorer.Open(context.Background(), explorer.Config{Listen: "127.0.0.1:0", DB: h.db, Policy: policy, Version: "test", Log: zerolog.Nop()}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	h.proxy.point(s.Addr())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = func() {
		cancel()
		if err := <-done; err != nil {
			h.Error(err)
		}
	}
}

func (h *hidden) down() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func (h *hidden) client(role client.Role, key sign.KeyPair) *client.Client {
	h.Helper()
	c := must[*client.Client](h.T)(client.NewClient(client.Config{URL: h.url(), Signer: client.KeySigner(role, key)}))
	h.Cleanup(c.Close)
	return c
}

// through is the user's way to the node, by the explorer.
func (h *hidden) through() nodeapi.Dialer {
	c := h.client(client.RoleUser, h.user)
	return nodeapi.Dialer{Node: h.node.ID(), User: h.user, Tunnel: func(ctx context.Context) (net.Conn, error) { return c.ConnectNode(ctx, h.node.ID()) }}
}

// reach dials until the tunnel is open.
func (h *hidden) reach(d nodeapi.Dialer) *nodeapi.Conn {
	h.Helper()
	var c *nodeapi.Conn
	h.settle("the node isn't reached", func() bool {
		var err error
		c, err = d.Dial(h.Context())
		return err == nil
	})
	h.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAHiddenNodeIsReachedThroughTheExplorerThatReadsNothing(t *testing.T) {
	h := hide(newWorld(t))
	c := h.reach(h.through())
	if !c.Tunnelled {
		t.Error("it doesn't say that it is tunnelled")
	}
	if s, err := c.Status(t.Context(), "7-1"); err != nil || s.Container.LastLog[0] != "bye" {
		t.Errorf("status %+v, %v", s, err)
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret)
	text := base64.StdEncoding.EncodeToString(secret)
	var out bytes.Buffer
	code, err := h.reach(h.through()).Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"cat", text}},
		nodeapi.ExecIO{Stdin: strings.NewReader(text), Stdout: &out, Stderr: io.Discard})
	if err != nil || code != 7 || out.String() != text {
		t.Errorf("exit code %d, %q, %v", code, out.String(), err)
	}
	// The proxy sees that a user connects to the node, but no content.
	for _, seen := range []string{client.TunnelUpgrade, h.node.ID(), h.user.ID()} {
		if !h.proxy.saw(seen) {
			t.Errorf("the proxy didn't see %s: it sees nothing at all", seen)
		}
	}
	for _, hiddenText := range []string{text, "/v1/workloads", "bye", nodeapi.HeaderNonce} {
		if h.proxy.saw(hiddenText) {
			t.Errorf("the explorer could read %q", hiddenText)
		}
	}
}

func TestTwoUsersMoveMuchThroughATunnel(t *testing.T) {
	h := hide(newWorld(t))
	h.reach(h.through())
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			in := make([]byte, 4<<20)
			_, _ = rand.Read(in)
			var out bytes.Buffer
			c, err := h.through().Dial(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			code, err := c.Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"cat"}}, nodeapi.ExecIO{Stdin: bytes.NewReader(in), Stdout: &out, Stderr: io.Discard})
			if err != nil || code != 7 || !bytes.Equal(out.Bytes(), in) {
				t.Errorf("exit code %d, %d bytes back, %v", code, out.Len(), err)
			}
		})
	}
	both.Wait()
}

func TestATunnelComesBackWithTheExplorer(t *testing.T) {
	h := hide(newWorld(t))
	c := h.reach(h.through())
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"hang"}}, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
		done <- err
	}()
	h.settle("it doesn't begin", func() bool { return h.streams.running() == 1 })
	began := time.Now()
	h.down()
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("the explorer took %s to stop", took)
	}
	if err := <-done; err == nil {
		t.Error("a command outlives its connection")
	}
	h.settle("the command runs on", func() bool { return h.streams.running() == 0 })
	if _, err := h.through().Dial(t.Context()); !refusedBy(err, node.Transient, "cannot reach") {
		t.Errorf("without an explorer: %v", err)
	}
	h.start()
	if _, err := h.reach(h.through()).Status(t.Context(), "7-1"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A wrong address only costs time: the host there isn't the node.
func TestAWrongAddressLeadsToTheTunnel(t *testing.T) {
	h := hide(newWorld(t))
	h.reach(h.through())
	other := newWorld(t)
	for _, address := range []string{other.door.Address(), "127.0.0.1:1"} {
		d := h.through()
		d.Address = address
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if !c.Tunnelled {
			t.Errorf("%s: it isn't tunnelled", address)
		}
		_ = c.Close()
	}
	d := h.through()
	d.Address = h.door.Address()
	c := h.dial(d)
	if c.Tunnelled {
		t.Error("the right address isn't used")
	}
}

// Of a node's two tunnels, the newer one is used.
func TestANewerTunnelReplacesTheOlder(t *testing.T) {
	h := hide(newWorld(t))
	h.reach(h.through())
	conn := must[net.Conn](t)(h.client(client.RoleNode, h.node).OpenTunnel(t.Context(), h.node.ID()))
	newer := must[*nodeapi.Tunnel](t)(nodeapi.NodeTunnel(conn))
	defer newer.Close()
	// The older tunnel is reopened, and replaces this one in turn.
	select {
	case <-newer.Done():
	case <-time.After(patience):
		t.Error("the newer tunnel isn't replaced")
	}
	if _, err := h.reach(h.through()).Status(t.Context(), "7-1"); err != nil {
		t.Error(err)
	}
}

func TestTunnelPermissions(t *testing.T) {
	h := hide(newWorld(t))
	h.reach(h.through())
	other := must[sign.KeyPair](t)(sign.Generate())
	if _, err := h.client(client.RoleNode, other).OpenTunnel(t.Context(), h.node.ID()); !refusedBy(err, node.Refused, "is signed by "+other.ID()) {
		t.Errorf("another node's tunnel: %v", err)
	}
	if _, err := h.client(client.RoleUser, h.user).OpenTunnel(t.Context(), h.node.ID()); !refusedBy(err, node.Refused, "must be signed as a node") {
		t.Errorf("a user's tunnel: %v", err)
	}
	if _, err := h.client(client.RoleNode, other).OpenTunnel(t.Context(), other.ID()); !refusedBy(err, node.NotExist, other.ID()) {
		t.Errorf("a tunnel of a node that isn't registered: %v", err)
	}
	if _, err := h.client(client.RoleNode, h.node).ConnectNode(t.Context(), h.node.ID()); !refusedBy(err, node.Refused, "must be signed as a user") {
		t.Errorf("a node's connection: %v", err)
	}
	if _, err := h.client(client.RoleUser, h.user).ConnectNode(t.Context(), other.ID()); !refusedBy(err, node.Transient, "keeps no tunnel open") {
		t.Errorf("to a node without a tunnel: %v", err)
	}
	for path, want := range map[string]int{"/tunnel": http.StatusUpgradeRequired, "/connect": http.StatusUpgradeRequired} {
		resp := must[*http.Response](t)(http.Get(h.url() + "/nodes/" + h.node.ID() + path))
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s without an upgrade: %d", path, resp.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// A request to connect counts once.
func TestAReplayedConnectIsRefused(t *testing.T) {
	h := hide(newWorld(t))
	h.reach(h.through())
	path := "/nodes/" + h.node.ID() + "/connect"
	in := client.Write{Role: client.RoleUser, Key: h.user.ID(), Method: "GET", Host: strings.TrimPrefix(h.url(), "http://"), Path: path, Time: time.Now()}
	send := func(change func(http.Header)) int {
		r := must[*http.Request](t)(http.NewRequest("GET", h.url()+path, nil))
		in.SetHeaders(r.Header, h.user.Sign(in.SigningBytes()))
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", client.TunnelUpgrade)
		change(r.Header)
		resp := must[*http.Response](t)((&http.Transport{DisableKeepAlives: true}).RoundTrip(r))
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	nothing := func(http.Header) {}
	unsigned := func(h http.Header) { h.Del(client.HeaderUser); h.Del(client.HeaderSignature) }
	if got := []int{send(unsigned), send(nothing), send(nothing)}; got[0] != 401 || got[1] != 101 || got[2] != 403 {
		t.Errorf("unsigned, first and second time: %v", got)
	}
}

// TestFreshKeysCannotTakeATunnel: keys without workloads at the node hold as many connections through
// its tunnel as they can get, and the owner still gets through.
func TestFreshKeysCannotTakeATunnel(t *testing.T) {
	h := hide(newWorld(t))
	_ = h.reach(h.through()).Close()
	held := 0
	for range 3 {
		c := h.client(client.RoleUser, must[sign.KeyPair](t)(sign.Generate()))
		for range 32 {
			conn, err := c.ConnectNode(t.Context(), h.node.ID())
			if err != nil {
				continue // refused, which is fine too
			}
			t.Cleanup(func() { _ = conn.Close() })
			held++
		}
	}
	if held == 0 {
		t.Fatal("no fresh key was let through: the attack doesn't take place")
	}
	c, err := h.through().Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context(), "7-1"); err != nil {
		t.Error(err)
	}
}

// A new node isn't registered yet: that isn't worth a warning.
func TestATunnelThatCannotBeThereYetIsNotWarnedOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{node.Errorf(node.NotExist, "there is no such node"), `"level":"debug"`},
		{node.Errorf(node.Transient, "cannot reach the explorer"), `"level":"warn"`},
	} {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		k := userapi.Keeper{
			Open: func(context.Context) (net.Conn, error) { return nil, c.err }, Pause: time.Millisecond, MaxPause: time.Millisecond,
			Log: zerolog.New(&log).Hook(zerolog.HookFunc(func(*zerolog.Event, zerolog.Level, string) { cancel() })),
		}
		if err := k.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(log.String(), "\n"); !strings.Contains(first, c.want) {
			t.Errorf("%v: the first line is %s, want %s", c.err, first, c.want)
		}
	}
}

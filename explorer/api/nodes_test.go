package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestNodeRegistration(t *testing.T) {
	h := start(t)
	ctx := t.Context()
	key := newKey(t)
	c := h.client(wire.RoleNode, &key)
	id := key.ID()

	wantKind(t, c.Heartbeat(ctx, id, wire.Heartbeat{Uptime: 1}), node.NotExist)
	must(t, c.RegisterNode(ctx, wire.Node{NodeID: id, OSVersion: "1", Birth: "b", Approved: true, Created: 5}))
	must(t, c.SetInterfaces(ctx, id, []wire.Iface{{Name: "eth0", Addrs: []string{"10.0.0.1/8"}}}))
	must(t, c.SetPorts(ctx, id, []uint{1, 2}))
	must(t, c.SetCapacity(ctx, id, wire.Resources{CRU: 4, MRU: 8}))
	must(t, c.Heartbeat(ctx, id, wire.Heartbeat{Uptime: 77, FreeResources: &wire.Resources{SRU: 3}, UsedResources: &wire.Resources{CRU: 1}}))
	n, err := c.Node(ctx, id)
	must(t, err)
	if n.Approved || n.Created == 5 || !n.Online || n.Uptime != 77 || len(n.Ifaces) != 1 || len(n.WGPorts) != 2 ||
		n.TotalResources.CRU != 4 || n.UsedResources.CRU != 1 || n.FreeResources.SRU != 3 || n.Birth != "b" {
		t.Errorf("the node is %+v", n)
	}
	// Registering again keeps the data reported since.
	must(t, c.RegisterNode(ctx, wire.Node{NodeID: id, OSVersion: "2", Birth: "b"}))
	n, err = c.Node(ctx, id)
	must(t, err)
	if n.OSVersion != "2" || len(n.Ifaces) != 1 || n.TotalResources.CRU != 4 {
		t.Errorf("after registering again the node is %+v", n)
	}
	h.clock.add(6 * time.Minute)
	n, err = c.Node(ctx, id)
	must(t, err)
	if n.Online {
		t.Error("a node that wasn't heard of for 6 minutes is online")
	}
	online, err := c.AllNodes(ctx, wire.NodeFilter{Online: true})
	must(t, err)
	if len(online) != 0 {
		t.Errorf("online are %+v", online)
	}
}

func TestNodeWritesAreSigned(t *testing.T) {
	h := start(t)
	ctx := t.Context()
	key, c := h.node()
	other, foreign := h.node()
	user := newKey(t)

	wantKind(t, foreign.Heartbeat(ctx, key.ID(), wire.Heartbeat{Uptime: 1}), node.Refused)
	wantKind(t, foreign.RegisterNode(ctx, wire.Node{NodeID: key.ID()}), node.Refused)
	wantKind(t, h.client(wire.RoleUser, &key).Heartbeat(ctx, key.ID(), wire.Heartbeat{Uptime: 1}), node.Refused)
	wantKind(t, h.client(wire.RoleUser, &user).RegisterNode(ctx, wire.Node{NodeID: key.ID()}), node.Refused)
	if p := h.problem("POST", "/nodes", `{"node_id":"`+key.ID()+`"}`, 401); p.Kind != "Refused" {
		t.Errorf("unsigned registration: %+v", p)
	}
	_, err := c.Node(ctx, other.ID())
	must(t, err)
}

func TestUnsignedRegistrationsAreChecked(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.AcceptUnsignedNodeWrites = true })
	key := newKey(t)
	h.problem("POST", "/nodes", `{"node_id":"nonode"}`, 400)
	h.problem("POST", "/nodes", `{"node_id":"`+key.ID()+`","uptime":"long"}`, 400)
	h.problem("POST", "/nodes", strings.Repeat(`[`, 100), 400)
}

// raw signs a heartbeat and sends it, changed by change before and after signing.
func (h *harness) raw(key sign.KeyPair, at time.Time, change func(r *http.Request, w *wire.Write)) int {
	h.t.Helper()
	body := `{"uptime":5}`
	r, err := http.NewRequest("POST", h.server.URL+"/nodes/"+key.ID()+"/uptime", strings.NewReader(body))
	must(h.t, err)
	w := wire.Write{Role: wire.RoleNode, Key: key.ID(), Method: "POST", Host: r.URL.Host, Path: r.URL.Path, Body: []byte(body), Time: at}
	if change != nil {
		change(nil, &w)
	}
	w.SetHeaders(r.Header, key.Sign(w.SigningBytes()))
	if change != nil {
		change(r, &w)
	}
	resp, err := h.http.Do(r)
	must(h.t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestSignedWritesCoverTheRequest(t *testing.T) {
	h := start(t)
	key, _ := h.node()
	step := func() time.Time { h.clock.add(time.Second); return h.clock.now() }

	if got := h.raw(key, step(), nil); got != 200 {
		t.Fatalf("a good one answers %d", got)
	}
	for name, change := range map[string]func(r *http.Request, w *wire.Write){
		"another method": func(_ *http.Request, w *wire.Write) { w.Method = "PUT" },
		"another host":   func(_ *http.Request, w *wire.Write) { w.Host = "elsewhere:80" },
		"another path":   func(_ *http.Request, w *wire.Write) { w.Path = "/nodes" },
		"another body":   func(_ *http.Request, w *wire.Write) { w.Body = []byte("{}") },
		"as a user":      func(_ *http.Request, w *wire.Write) { w.Role = wire.RoleUser },
		"another time": func(r *http.Request, _ *wire.Write) {
			if r != nil {
				r.Header.Set(wire.HeaderTimestamp, "1")
			}
		},
		"no time": func(r *http.Request, _ *wire.Write) {
			if r != nil {
				r.Header.Del(wire.HeaderTimestamp)
			}
		},
		"no signature": func(r *http.Request, _ *wire.Write) {
			if r != nil {
				r.Header.Del(wire.HeaderSignature)
			}
		},
		"not base64": func(r *http.Request, _ *wire.Write) {
			if r != nil {
				r.Header.Set(wire.HeaderSignature, "?")
			}
		},
		"two keys": func(r *http.Request, _ *wire.Write) {
			if r != nil {
				r.Header.Set(wire.HeaderUser, key.ID())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			want := 401
			if name == "as a user" {
				want = 403
			}
			if got := h.raw(key, step(), change); got != want {
				t.Errorf("answers %d, want %d", got, want)
			}
		})
	}
	h.t = t
}

func TestSignedWritesAreNotReplayed(t *testing.T) {
	h := start(t)
	key, _ := h.node()
	h.clock.add(time.Second)
	at := h.clock.now()
	if got := h.raw(key, at, nil); got != 200 {
		t.Fatalf("the first answers %d", got)
	}
	if got := h.raw(key, at, nil); got != 401 {
		t.Errorf("a replay answers %d, want 401", got)
	}
	if got := h.raw(key, at.Add(-1), nil); got != 401 {
		t.Errorf("an older one answers %d, want 401", got)
	}
	// The explorer still refuses the replay after a restart.
	h.stopped(func(again *harness) {
		if got := again.raw(key, at, nil); got != 401 {
			t.Errorf("a replay after a restart answers %d, want 401", got)
		}
		if got := again.raw(key, at.Add(1), nil); got != 200 {
			t.Errorf("the next answers %d, want 200", got)
		}
	})
}

// stopped stops the explorer and runs then with a new one on the same database and
// with the same clock.
func (h *harness) stopped(then func(again *harness)) {
	h.t.Helper()
	h.stop()
	again := startAt(h.t, h.path)
	again.clock.set(h.clock.now())
	then(again)
}

// A node with a wrong clock can still register: the explorer's answer has the right
// time.
func TestAWrongClockCanRegister(t *testing.T) {
	for name, wrong := range map[string]time.Time{
		"1970":          time.Unix(3, 0),
		"a year ahead":  time.Now().AddDate(1, 0, 0),
		"a year behind": time.Now().AddDate(-1, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			key := newKey(t)
			local := &clock{}
			local.set(wrong)
			c, err := wire.NewClient(wire.Config{URL: h.server.URL, Transport: h.checker, Signer: wire.KeySigner(wire.RoleNode, key), Now: local.now})
			must(t, err)
			must(t, c.RegisterNode(t.Context(), wire.Node{NodeID: key.ID()}))
			must(t, c.Heartbeat(t.Context(), key.ID(), wire.Heartbeat{Uptime: 1}))
			local.set(h.clock.now()) // NTP corrects it
			must(t, c.Heartbeat(t.Context(), key.ID(), wire.Heartbeat{Uptime: 2}))
		})
	}
}

func TestFarms(t *testing.T) {
	h := start(t)
	ctx := t.Context()
	owner, stranger := newKey(t), newKey(t)
	mine, theirs := h.client(wire.RoleUser, &owner), h.client(wire.RoleUser, &stranger)

	farm, err := mine.CreateFarm(ctx, "green acres")
	must(t, err)
	if farm.ID != 1 || farm.Owner != owner.ID() {
		t.Errorf("the farm is %+v", farm)
	}
	_, err = theirs.CreateFarm(ctx, "green acres")
	wantKind(t, err, node.Exist)
	for _, name := range []string{"", " x", "x ", strings.Repeat("x", 65), "a\nb", "<b>"} {
		_, err := mine.CreateFarm(ctx, name)
		wantKind(t, err, node.Invalid)
	}
	h.problem("POST", "/farms", `{"name":"x"}`, 401)
	_, err = h.client(wire.RoleNode, &owner).CreateFarm(ctx, "x")
	wantKind(t, err, node.Refused)

	// A node joins with a grant at registration, or later.
	key := newKey(t)
	c := h.client(wire.RoleNode, &key)
	must(t, c.RegisterNode(ctx, wire.Node{NodeID: key.ID(), FarmID: farm.ID}))
	approved := func() bool {
		n, err := c.Node(ctx, key.ID())
		must(t, err)
		return n.Approved
	}
	if approved() {
		t.Error("a node is approved without its farm's owner")
	}
	now := h.clock.now().UTC()
	wantKind(t, c.Approve(ctx, farm.ID, key.ID(), wire.SignGrant(stranger, farm.ID, key.ID(), now)), node.Refused)
	wantKind(t, c.Approve(ctx, farm.ID, key.ID(), wire.SignGrant(owner, farm.ID+1, key.ID(), now)), node.Refused)
	wantKind(t, c.Approve(ctx, farm.ID, key.ID(), wire.SignGrant(owner, farm.ID, stranger.ID(), now)), node.Refused)
	wantKind(t, c.Approve(ctx, 9, key.ID(), wire.SignGrant(owner, 9, key.ID(), now)), node.NotExist)
	wantKind(t, c.Approve(ctx, farm.ID, stranger.ID(), wire.SignGrant(owner, farm.ID, stranger.ID(), now)), node.NotExist)
	wantKind(t, theirs.SetPublicConfig(ctx, key.ID(), wire.PublicConfig{Master: "eth1"}), node.Refused)
	wantKind(t, mine.SetPublicConfig(ctx, key.ID(), wire.PublicConfig{Master: "eth1"}), node.Refused)
	grant := wire.SignGrant(owner, farm.ID, key.ID(), now)
	must(t, c.Approve(ctx, farm.ID, key.ID(), grant))
	must(t, mine.SetPublicConfig(ctx, key.ID(), wire.PublicConfig{Master: "eth1"}))
	must(t, c.RegisterNode(ctx, wire.Node{NodeID: key.ID(), FarmID: farm.ID}))
	if !approved() {
		t.Error("registering again forgets the approval")
	}
	must(t, c.RegisterNode(ctx, wire.Node{NodeID: key.ID(), FarmID: 7}))
	if approved() {
		t.Error("a node takes its approval to another farm")
	}
	wantKind(t, c.Approve(ctx, farm.ID, key.ID(), grant), node.Refused)
	// The node has left: the old grant can't bring it back.
	must(t, c.RegisterNode(ctx, wire.Node{NodeID: key.ID(), FarmID: farm.ID}))
	wantKind(t, c.Approve(ctx, farm.ID, key.ID(), grant), node.Refused)
	wantKind(t, c.RegisterNode(ctx, wire.Node{NodeID: key.ID(), FarmID: farm.ID, Grant: &grant}), node.Refused)
	if approved() {
		t.Error("a grant serves twice")
	}
	grant = wire.SignGrant(owner, farm.ID, key.ID(), now.Add(time.Second))
	h.clock.add(wire.GrantLife + 2*time.Second)
	wantKind(t, c.Approve(ctx, farm.ID, key.ID(), grant), node.Refused)
	future := wire.SignGrant(owner, farm.ID, key.ID(), h.clock.now().Add(time.Hour))
	wantKind(t, c.Approve(ctx, farm.ID, key.ID(), future), node.Refused)
	grant = wire.SignGrant(owner, farm.ID, key.ID(), h.clock.now())
	must(t, c.RegisterNode(ctx, wire.Node{NodeID: key.ID(), FarmID: farm.ID, Grant: &grant}))
	// A member may repeat its grant, even after the grant has expired.
	h.clock.add(wire.GrantLife + time.Second)
	must(t, c.RegisterNode(ctx, wire.Node{NodeID: key.ID(), FarmID: farm.ID, Grant: &grant}))
	must(t, c.Approve(ctx, farm.ID, key.ID(), grant))
	if !approved() {
		t.Error("a grant at registration doesn't approve")
	}
	forged := wire.SignGrant(stranger, farm.ID, key.ID(), now)
	wantKind(t, c.RegisterNode(ctx, wire.Node{NodeID: key.ID(), FarmID: farm.ID, Grant: &forged}), node.Refused)

	of, err := c.AllNodes(ctx, wire.NodeFilter{Farm: farm.ID})
	must(t, err)
	farms, err := c.AllFarms(ctx)
	must(t, err)
	got, err := c.Farm(ctx, farm.ID)
	must(t, err)
	if len(of) != 1 || of[0].PublicConfig.Master != "eth1" || len(farms) != 1 || got != farm {
		t.Errorf("nodes %+v, farms %+v, farm %+v", of, farms, got)
	}
}

// Once a node has signed, unsigned writes for it are refused, even if the operator allows them.
func TestUnsignedWritesDontTouchASigningNode(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.AcceptUnsignedNodeWrites = true })
	signing, _ := h.node()
	h.problem("POST", "/nodes", `{"node_id":"`+signing.ID()+`"}`, 403)
	h.problem("POST", "/nodes/"+signing.ID()+"/ports", `{"ports":[1]}`, 403)
	old := newKey(t)
	if status, _, body := h.do("POST", "/nodes", `{"node_id":"`+old.ID()+`"}`); status != 201 {
		t.Errorf("an unsigned registration answers %d %s", status, body)
	}
	status, _, body := h.do("POST", "/nodes/"+old.ID()+"/configure_public", `{"master":"e","type":"","ipv4":"","ipv6":"","gw4":"","gw6":"","version":0}`)
	if status != 201 {
		t.Errorf("an unsigned configuration answers %d %s", status, body)
	}
}

func TestInfoAndHealth(t *testing.T) {
	h := start(t)
	info, err := h.anybody().Info(t.Context())
	must(t, err)
	if info.Epoch != h.store.Epoch() || !info.Time.Equal(h.clock.now()) || info.Version != "test" || info.MaxBody != MaxBody || info.MaxDuration != 365*24*time.Hour {
		t.Errorf("info is %+v", info)
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/metrics"} {
		if status, _, _ := h.do("GET", path, ""); status != 200 {
			t.Errorf("%s answers %d", path, status)
		}
	}
	_, _, metrics := h.do("GET", "/metrics", "")
	for _, want := range []string{`croft_explorer_requests_total{route="GET /healthz",status="200"} 1`, "croft_explorer_long_polls 0", "go_goroutines"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics don't say %q", want)
		}
	}
	var doc map[string]any
	_, _, body := h.do("GET", "/openapi.json", "")
	must(t, json.Unmarshal([]byte(body), &doc))
	if doc["openapi"] != "3.1.0" {
		t.Errorf("openapi is %v", doc["openapi"])
	}
	h.waiters.Close()
	h.problem("GET", "/readyz", "", 503)
}

// A node whose clock was ahead, within the window, and is corrected can write at once.
func TestAClockThatWasAhead(t *testing.T) {
	h := start(t)
	key := newKey(t)
	local := &clock{}
	local.set(h.clock.now().Add(9 * time.Minute))
	c, err := wire.NewClient(wire.Config{URL: h.server.URL, Transport: h.checker, Signer: wire.KeySigner(wire.RoleNode, key), Now: local.now})
	must(t, err)
	must(t, c.RegisterNode(t.Context(), wire.Node{NodeID: key.ID()}))
	fresh := h.client(wire.RoleNode, &key) // the node restarts with the right time
	must(t, fresh.Heartbeat(t.Context(), key.ID(), wire.Heartbeat{Uptime: 1}))
	must(t, fresh.Heartbeat(t.Context(), key.ID(), wire.Heartbeat{Uptime: 2}))
}

// The explorer returns nodes' addresses as CIDRs, the only form that the seed's clients
// read; also those that a node reports without a prefix length.
func TestAddressesAreCIDRs(t *testing.T) {
	h := start(t)
	key, c := h.node()
	said := []string{"192.0.2.1", "192.0.2.2/24", "2001:db8::1", "2001:db8::2/64", "::ffff:192.0.2.3", "no address"}
	want := []string{"192.0.2.1/32", "192.0.2.2/24", "2001:db8::1/128", "2001:db8::2/64", "192.0.2.3/32", "no address"}
	must(t, c.SetInterfaces(t.Context(), key.ID(), []wire.Iface{{Name: "eth0", Addrs: said}}))
	one, err := c.Node(t.Context(), key.ID())
	must(t, err)
	all, err := c.AllNodes(t.Context(), wire.NodeFilter{})
	must(t, err)
	for _, n := range append(all, one) {
		if !slices.Equal(n.Ifaces[0].Addrs, want) {
			t.Errorf("the addresses are %v", n.Ifaces[0].Addrs)
		}
	}
}

// For a node that signs, unsigned results and unsigned "deleted" are refused, even of a
// reservation of version 1. For a node of the seed's time, which signs no requests,
// they are accepted.
func TestUnsignedAnswersDontTouchASigningNode(t *testing.T) {
	h := start(t, func(c *Config) { c.Policy.AcceptUnsignedNodeWrites, c.Policy.AcceptSignatureV1 = true, true })
	user, seed := newKey(t), newKey(t)
	signing, _ := h.node()
	if status, _, body := h.do("POST", "/nodes", `{"node_id":"`+seed.ID()+`"}`); status != 201 {
		t.Fatalf("a node of the seed's time is answered %d: %s", status, body)
	}
	v1 := func(r *workload.Reservation) { r.Version = workload.V1 }
	answer := func(r *workload.Reservation, state workload.State, key *sign.KeyPair) string {
		out := &workload.Result{Type: r.Type, ID: r.ID, Created: h.clock.now().UTC(), State: state, Data: json.RawMessage(`{"volume_id":"1-1"}`)}
		if key != nil {
			message, err := out.Bytes()
			must(t, err)
			out.Signature = key.Sign(message)
		}
		body, err := workload.EncodeResult(out)
		must(t, err)
		return string(body)
	}
	for _, node := range []struct {
		key  sign.KeyPair
		want int
	}{{signing, 403}, {seed, 200}} {
		r := h.push(user, node.key.ID(), v1)
		for _, send := range [][2]string{
			{"/reservations/" + r.ID, answer(r, workload.StateOK, nil)},
			{"/reservations/" + r.ID + "/deleted", answer(r, workload.StateDeleted, nil)},
			{"/reservations/" + r.ID + "/deleted", ""},
		} {
			if status, _, body := h.do("PUT", send[0], send[1]); status != node.want {
				t.Errorf("PUT %s is answered %d, want %d: %s", send[0], status, node.want, body)
			}
		}
	}
	// A node that has signed a result of version 2 counts as signing, too.
	third := newKey(t)
	h.do("POST", "/nodes", `{"node_id":"`+third.ID()+`"}`)
	r := h.push(user, third.ID())
	must(t, h.anybody().PutResult(t.Context(), h.result(third, r)))
	old := h.push(user, third.ID(), v1)
	h.problem("PUT", "/reservations/"+old.ID+"/deleted", "", 403)
	// An unsigned result doesn't replace a signed one.
	r = h.push(user, seed.ID(), v1, func(r *workload.Reservation) { r.Data = json.RawMessage(`{"size":2,"type":"SSD"}`) })
	for i, step := range []struct {
		body string
		want int
	}{
		{answer(r, workload.StateError, nil), 200}, {answer(r, workload.StateOK, &seed), 200},
		{answer(r, workload.StateError, nil), 403}, {answer(r, workload.StateOK, &seed), 200},
	} {
		if status, _, body := h.do("PUT", "/reservations/"+r.ID, step.body); status != step.want {
			t.Errorf("step %d is answered %d, want %d: %s", i, status, step.want, body)
		}
	}
}

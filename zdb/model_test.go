package zdb_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/zdb"
)

// version is a key's value at one time.
type version struct {
	value string
	at    uint32
}

// modelKey is a key with its versions, the newest last.
type modelKey struct {
	key      string
	versions []version
}

func (k *modelKey) now() version { return k.versions[len(k.versions)-1] }

// modelSpace is the simplest model of a namespace.
type modelSpace struct {
	name, mode, password          string
	private, worm, locked, frozen bool
	limit                         uint64
	keys                          []*modelKey // in the order of SCAN
	next                          uint64
	used                          bool
}

func (ns *modelSpace) find(key string) *modelKey {
	for _, k := range ns.keys {
		if k.key == key {
			return k
		}
	}
	return nil
}

func (ns *modelSpace) bytes() (n uint64) {
	for _, k := range ns.keys {
		n += uint64(len(k.now().value))
	}
	return n
}

// modelClient is the model of a connection.
type modelClient struct {
	*client
	ns       *modelSpace
	writable bool
	gone     bool
}

// model is a server and its model.
type model struct {
	t       *rapid.T
	b       *bench
	v1      bool
	spaces  map[string]*modelSpace
	clients []*modelClient
}

func (m *model) draw(n int, what string) int { return rapid.IntRange(0, n-1).Draw(m.t, what) }

func (m *model) some() *modelClient { return m.clients[m.draw(len(m.clients), "client")] }

func (m *model) expect(c *modelClient, want string, args ...string) {
	m.t.Helper()
	if c.gone {
		want = "-Your active namespace is not available anymore (probably removed).\r\n"
	}
	if got := c.do(args...); got != want {
		m.t.Fatalf("%q in %q: got %q, want %q", args, c.ns.name, clip([]byte(got)), clip([]byte(want)))
	}
	if c.gone {
		m.replace(c)
	}
}

// replace has a connection end, and another one begin.
func (m *model) replace(c *modelClient) {
	c.leave()
	*c = modelClient{client: m.b.client(), ns: m.spaces["default"], writable: true}
}

// key draws one that is there, one that was, or a new one.
func (m *model) key(ns *modelSpace) string {
	if len(ns.keys) > 0 && m.draw(3, "there") > 0 {
		return ns.keys[m.draw(len(ns.keys), "key")].key
	}
	if ns.mode == zdb.ModeSequential {
		return m.id(uint64(m.draw(int(ns.next)+2, "id")))
	}
	return rapid.SampledFrom([]string{"a", "b", "c", "\x00", "\r\n", strings.Repeat("k", 255), "key six", "7", "8", "9"}).Draw(m.t, "new")
}

func (m *model) id(n uint64) string {
	b := binary.LittleEndian.AppendUint64(nil, n)
	if m.v1 {
		b = b[:4]
	}
	return string(b)
}

func (m *model) writes(c *modelClient) (refusal string) {
	switch {
	case !c.writable:
		return readOnly
	case c.ns.frozen:
		return "-Namespace is temporarily frozen (read-write disabled)\r\n"
	case c.ns.locked:
		return "-Namespace is temporarily locked (read-only)\r\n"
	}
	return ""
}

func (m *model) set(c *modelClient) {
	ns := c.ns
	value := strings.Repeat(rapid.SampledFrom([]string{"x", "yz", "\x00\n"}).Draw(m.t, "value"), m.draw(40, "times"))
	at := uint32(m.draw(1000, "at"))
	key := ""
	if ns.mode == zdb.ModeUser || m.draw(2, "update") == 0 {
		key = m.key(ns)
	}
	want := m.writes(c)
	old := ns.find(key)
	switch {
	case c.gone || want != "":
	case ns.mode == zdb.ModeSequential && key != "" && old == nil:
		want = "-Invalid key, only update authorized\r\n"
	case old != nil && ns.worm:
		want = "-Namespace is protected by worm mode\r\n"
	case ns.limit > 0 && ns.bytes()+uint64(len(value)) > ns.limit+uint64(oldLength(old)):
		want = "-No space left on this namespace\r\n"
	case old != nil && old.now().value == value:
		want = null
	default:
		want = bulk(m.stored(ns, old, key, version{value: value, at: at}))
	}
	m.expect(c, want, "SET", key, value, fmt.Sprint(at))
}

func oldLength(k *modelKey) int {
	if k == nil {
		return 0
	}
	return len(k.now().value)
}

// stored puts a value in the model and returns its key.
func (m *model) stored(ns *modelSpace, old *modelKey, key string, v version) string {
	ns.used = true
	switch {
	case ns.mode == zdb.ModeSequential && old == nil:
		key = m.id(ns.next)
		ns.next++
		ns.keys = append(ns.keys, &modelKey{key: key, versions: []version{v}})
	case ns.mode == zdb.ModeSequential:
		old.versions = append(old.versions, v)
		ns.next++ // the old value is an entry of its own
	case old == nil:
		ns.keys = append(ns.keys, &modelKey{key: key, versions: []version{v}})
	default:
		old.versions = append(old.versions, v)
		i := slices.Index(ns.keys, old)
		ns.keys = append(slices.Delete(ns.keys, i, i+1), old)
	}
	return key
}

func (m *model) del(c *modelClient) {
	key := m.key(c.ns)
	old := c.ns.find(key)
	want := m.writes(c)
	switch {
	case c.gone || want != "":
	case c.ns.worm:
		want = "-Cannot delete a key when namespace is in worm mode\r\n"
	case old == nil:
		want = "-Key not found\r\n"
	default:
		want = ok
		i := slices.Index(c.ns.keys, old)
		c.ns.keys = slices.Delete(c.ns.keys, i, i+1)
	}
	m.expect(c, want, "DEL", key)
}

// reads asks for a key in every way.
func (m *model) reads(c *modelClient) {
	key := m.key(c.ns)
	k := c.ns.find(key)
	value, there, good, size, at, cursor := null, ":0\r\n", null, null, null, "-Key not found\r\n"
	if k != nil {
		value, there, good = bulk(k.now().value), ":1\r\n", ":1\r\n"
		size, at = fmt.Sprintf(":%d\r\n", len(k.now().value)), fmt.Sprintf(":%d\r\n", k.now().at)
	}
	commands := map[string]string{"GET": value, "EXISTS": there, "CHECK": good, "KEYCUR": cursor}
	if !m.v1 {
		commands["LENGTH"], commands["KEYTIME"], commands["MGET"] = size, at, "*1\r\n"+value
	}
	for command, want := range commands {
		if c.gone {
			break
		}
		if c.ns.frozen {
			want = "-Namespace is temporarily frozen (read-write disabled)\r\n"
		} else if command == "KEYCUR" && k != nil {
			continue
		}
		m.expect(c, want, command, key)
	}
	m.expect(c, fmt.Sprintf(":%d\r\n", len(c.ns.keys)), "DBSIZE")
}

// scans walks over all keys, page by page, forward and backward.
func (m *model) scans(c *modelClient) {
	if c.gone || c.ns.frozen {
		return
	}
	m.b.srv.PageRows(1 + m.draw(4, "rows"))
	for _, command := range []string{"SCAN", "RSCAN"} {
		var want, got []string
		for _, k := range c.ns.keys {
			want = append(want, fmt.Sprintf("%q %d %d", k.key, len(k.now().value), k.now().at))
		}
		if command == "RSCAN" {
			slices.Reverse(want)
		}
		for args := []string{command}; len(got) <= len(want); {
			reply := c.do(args...)
			if reply == "-No more data\r\n" {
				break
			}
			page := parse(m.t, reply).([]any)
			args = []string{command, page[0].(string)}
			for _, row := range page[1].([]any) {
				r := row.([]any)
				got = append(got, fmt.Sprintf("%q %d %d", r[0], r[1], r[2]))
			}
		}
		if !slices.Equal(got, want) {
			m.t.Fatalf("%s in %q: got %v, want %v", command, c.ns.name, got, want)
		}
	}
}

// histories walks back through the versions of a key.
func (m *model) histories(c *modelClient) {
	if c.gone || c.ns.frozen || len(c.ns.keys) == 0 {
		return
	}
	k := c.ns.keys[m.draw(len(c.ns.keys), "key")]
	args := []string{"HISTORY", k.key}
	for i := len(k.versions) - 1; ; i-- {
		got := parse(m.t, c.do(args...)).([]any)
		v := k.versions[i]
		if got[1] != fmt.Sprint(v.at) || got[2] != v.value || (got[0] == nil) != (i == 0) {
			m.t.Fatalf("HISTORY of %q: got %q, want %v, %d older", k.key, got, v, i)
		}
		if i == 0 {
			return
		}
		args = []string{"HISTORY", k.key, got[0].(string)}
	}
}

var modelNames = []string{"one", "two", "three"}

func (m *model) spaceCommands() {
	c := m.some()
	name := rapid.SampledFrom(modelNames).Draw(m.t, "name")
	ns := m.spaces[name]
	switch m.draw(4, "what") {
	case 0:
		want := "-This namespace is not available\r\n"
		if ns == nil {
			want = ok
		}
		if ns == nil && !c.gone {
			m.spaces[name] = &modelSpace{name: name, mode: m.mode()}
		}
		m.expect(c, want, "NSNEW", name)
	case 1:
		want := ok
		switch {
		case c.gone:
		case ns == nil:
			want = "-This namespace doesn't exists\r\n"
		case c.ns == ns:
			want = "-Cannot remove namespace you're currently using.\r\n"
		default:
			delete(m.spaces, name)
			defer m.expel(ns)
		}
		m.expect(c, want, "NSDEL", name)
	default:
		m.selects(c, name, ns)
	}
}

func (m *model) mode() string {
	if m.b.cfg.Mode == "" {
		return zdb.ModeUser
	}
	return m.b.cfg.Mode
}

func (m *model) expel(ns *modelSpace) {
	for _, c := range m.clients {
		if c.ns == ns {
			c.gone = true
		}
	}
}

func (m *model) selects(c *modelClient, name string, ns *modelSpace) {
	args := []string{"SELECT", name}
	if m.draw(2, "password") == 0 {
		args = append(args, rapid.SampledFrom([]string{"pw", "wrong"}).Draw(m.t, "given"))
	}
	want, writable := ok, true
	switch {
	case c.gone:
	case ns == nil:
		want = "-Namespace not found\r\n"
	case ns.password == "":
	case len(args) == 2 && ns.private:
		want = "-Namespace protected and private\r\n"
	case len(args) == 2:
		writable = false
	case args[2] != ns.password:
		want = "-Access denied\r\n"
	}
	if want == ok && !c.gone {
		c.ns, c.writable = ns, writable
	}
	m.expect(c, want, args...)
}

func (m *model) settings() {
	c := m.some()
	name := rapid.SampledFrom(modelNames).Draw(m.t, "name")
	ns := m.spaces[name]
	property := rapid.SampledFrom([]string{"password", "public", "worm", "maxsize", "lock", "freeze", "mode"}).Draw(m.t, "property")
	value := fmt.Sprint(m.draw(2, "on"))
	want := ok
	later := func() {}
	switch {
	case c.gone:
	case ns == nil:
		want = "-Namespace not found\r\n"
	case property == "password":
		value = rapid.SampledFrom([]string{"pw", "*"}).Draw(m.t, "value")
		later = func() { ns.password = strings.TrimPrefix(value, "*") }
	case property == "public":
		later = func() { ns.private = value == "0" }
	case property == "worm":
		later = func() { ns.worm = value == "1" }
	case property == "maxsize":
		value = fmt.Sprint(m.draw(3, "limit") * 60)
		later = func() { fmt.Sscan(value, &ns.limit) }
	case m.v1:
		want = "-Invalid property\r\n"
	case property == "lock":
		later = func() { ns.locked = value == "1" }
	case property == "freeze":
		later = func() { ns.frozen = value == "1" }
	case m.b.cfg.Mode != "":
		want = "-This server instance is configured to use a single runtime mode\r\n"
	case ns.used:
		want = "-Cannot change mode of used namespace\r\n"
	default:
		value = rapid.SampledFrom([]string{"user", "seq"}).Draw(m.t, "value")
		later = func() { ns.mode = value }
	}
	if !c.gone {
		later()
	}
	m.expect(c, want, "NSSET", name, property, value)
}

func (m *model) flush(c *modelClient) {
	want := "-Flushing public namespace denied\r\n"
	ns := c.ns
	if ns.private && ns.password != "" && !c.gone {
		want = m.writes(c)
		if want == "" && ns.worm {
			want = "-Cannot flush a namespace in worm mode\r\n"
		}
		if want == "" {
			want = ok
			ns.keys, ns.next, ns.used = nil, 0, false
		}
	}
	m.expect(c, want, "FLUSH")
}

// infos compares what NSINFO counts.
func (m *model) infos() {
	c := m.b.client()
	defer c.leave()
	for name, ns := range m.spaces {
		for line, want := range map[string]any{"entries": len(ns.keys), "data_size_bytes": ns.bytes(), "data_limits_bytes": ns.limit} {
			if got := c.field("NSINFO "+name, line); got != fmt.Sprint(want) {
				m.t.Fatalf("NSINFO %s: %s is %s, want %v", name, line, got, want)
			}
		}
	}
}

func (m *model) restart() {
	m.b.again()
	for _, ns := range m.spaces {
		ns.locked, ns.frozen = false, false
	}
	for _, c := range m.clients {
		*c = modelClient{client: m.b.client(), ns: m.spaces["default"], writable: true}
		name := rapid.SampledFrom(modelNames).Draw(m.t, "name")
		if ns := m.spaces[name]; ns != nil && ns.password == "" {
			c.ns = ns
			m.expect(c, ok, "SELECT", name)
		}
	}
}

// Whatever clients do, in whatever order, with starts between: the server does
// what a simple model of it does.
func TestCommandsAgainstAModel(t *testing.T) {
	for _, cfg := range []zdb.Config{
		{Mode: zdb.ModeUser}, {Mode: zdb.ModeSequential}, {DataSize: 4096},
		{Compat: zdb.CompatV1, Mode: zdb.ModeUser}, {Compat: zdb.CompatV1, Mode: zdb.ModeSequential, DataSize: 4096},
	} {
		t.Run(fmt.Sprintf("mode %s compat %s", cfg.Mode, cfg.Compat), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { play1(t, rt, cfg) })
		})
	}
}

func play1(t *testing.T, rt *rapid.T, cfg zdb.Config) {
	var err error
	if cfg.Data, err = os.MkdirTemp("/dev/shm", "zdbmodel"); err != nil { // it syncs a lot
		rt.Fatal(err)
	}
	defer os.RemoveAll(cfg.Data)
	b := &bench{t: t, cfg: cfg}
	b.start()
	defer b.close()
	m := &model{t: rt, b: b, v1: cfg.Compat == zdb.CompatV1, spaces: map[string]*modelSpace{}}
	m.spaces["default"] = &modelSpace{name: "default", mode: m.mode()}
	for i := range 3 {
		m.clients = append(m.clients, &modelClient{client: b.client(), ns: m.spaces["default"], writable: true})
		// Most of what there is happens in a namespace with settings.
		if i > 0 {
			name := modelNames[0]
			if m.spaces[name] == nil {
				m.spaces[name] = &modelSpace{name: name, mode: m.mode()}
				m.expect(m.clients[i], ok, "NSNEW", name)
			}
			m.clients[i].ns = m.spaces[name]
			m.expect(m.clients[i], ok, "SELECT", name)
		}
	}
	on := func(f func(*modelClient)) func(*rapid.T) { return func(*rapid.T) { f(m.some()) } }
	actions := map[string]func(*rapid.T){
		"set": on(m.set), "set again": on(m.set), "set a third time": on(m.set), "del": on(m.del), "reads": on(m.reads), "scans": on(m.scans),
		"histories": on(m.histories), "flush": on(m.flush), "spaces": func(*rapid.T) { m.spaceCommands() }, "settings": func(*rapid.T) { m.settings() },
		"infos": func(*rapid.T) { m.infos() }, "restart": func(*rapid.T) { m.restart() },
	}
	for range 3 {
		rt.Repeat(actions)
	}
	for _, c := range m.clients {
		m.scans(c)
	}
}

package zdb

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
)

// inside is a user's connection to a namespace.
func (s Subject) inside(t *testing.T, at node.ZDBServer, name string, password ...any) zdbClient {
	t.Helper()
	client := s.user(t, at)
	client.do("SELECT", append([]any{name}, password...)...)
	return client
}

func zdbCreate(t *testing.T, s Subject) {
	at := s.attach(t, zdbOne, workload.ZDBUser)
	spec := node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: 10 * expect.MiB}
	made := s.create(t, spec)
	if made.Used != 0 || made.Mode != workload.ZDBUser {
		t.Errorf("created %+v", made)
	}
	client := s.inside(t, at, "5-1")
	if key := client.do("SET", "key", strings.Repeat("x", 1<<20)); key != "key" {
		t.Errorf("SET answers %q", key)
	}
	var got node.ZDBNamespace
	eventually(t, func() bool { // the figure for the disk is a moment old
		var err error
		got, err = s.Client.Inspect(t.Context(), zdbOne, "5-1")
		expect.NoError(t, err)
		return got.Disk >= expect.MiB
	}, func() any { return got })
	if got.Used != expect.MiB || got.Disk > zdbspace.Bound(spec.Size) || got.Size != spec.Size {
		t.Errorf("with a MiB in it it is %+v", got)
	}
	// The default namespace isn't in any list.
	list, err := s.Client.List(t.Context(), zdbOne)
	expect.NoError(t, err)
	if len(list) != 1 || list[0].Name != "5-1" || list[0].Used != expect.MiB || list[0].Container != zdbOne {
		t.Errorf("listed %+v", list)
	}
	if one := s.one(t); one.Namespaces != 1 {
		t.Errorf("in hand: %+v", one)
	}
}

func zdbCreateTwice(t *testing.T, s Subject) {
	at := s.attach(t, zdbOne, workload.ZDBUser)
	spec := node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: expect.MiB, Password: "secret"}
	first := s.create(t, spec)
	client := s.inside(t, at, "5-1", "secret")
	client.do("SET", "key", "value")
	again := s.create(t, spec)
	if first.Used = uint64(len("value")); again.Used != first.Used || again.Mode != first.Mode {
		t.Errorf("created twice: %+v, then %+v", first, again)
	}
	if value := client.do("GET", "key"); value != "value" {
		t.Errorf("the value is %q", value)
	}
	list, err := s.Client.List(t.Context(), zdbOne)
	expect.NoError(t, err)
	if len(list) != 1 {
		t.Errorf("listed %+v", list)
	}
}

func zdbChange(t *testing.T, s Subject) {
	at := s.attach(t, zdbOne, workload.ZDBUser)
	spec := node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: expect.MiB}
	s.create(t, spec)
	s.inside(t, at, "5-1").do("SET", "key", "value")
	for _, change := range []func(){
		func() { spec.Size = 2 * expect.MiB },
		func() { spec.Public = true },
		func() { spec.Password = "secret" },
		func() { spec.Password = "another" },
		func() { spec.Public = false },
		func() { spec.Size = 1 },
		func() { spec.Password = "" },
		func() { spec.Public, spec.Size, spec.Password = true, math.MaxInt64, "secret" },
	} {
		change()
		if got := s.create(t, spec); got.Used != uint64(len("value")) {
			t.Errorf("%+v: it is %+v", spec, got)
		}
		client := s.inside(t, at, "5-1", spec.Password)
		if value := client.do("GET", "key"); value != "value" {
			t.Errorf("%+v: the value is %q", spec, value)
		}
	}
	// Its settings outlive a restart, too.
	s.Kill(t, zdbOne)
	s.Start(t, zdbOne, workload.ZDBUser)
	s.whole(t)
	got, err := s.Client.Inspect(t.Context(), zdbOne, "5-1")
	expect.NoError(t, err)
	if got.Size != math.MaxInt64 || !got.Public || !got.Protected || got.Used != uint64(len("value")) {
		t.Errorf("after a restart it is %+v", got)
	}
}

func zdbPasswords(t *testing.T, s Subject) {
	at := s.attach(t, zdbOne, workload.ZDBUser)
	spec := node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: expect.MiB, Password: "secret"}
	s.create(t, spec)
	s.user(t, at).refused("SELECT", "5-1")
	s.user(t, at).refused("SELECT", "5-1", "wrong")
	s.inside(t, at, "5-1", "secret").do("SET", "key", "value")
	spec.Public = true
	s.create(t, spec)
	reader := s.inside(t, at, "5-1")
	if value := reader.do("GET", "key"); value != "value" {
		t.Errorf("the value is %q", value)
	}
	reader.refused("SET", "key", "another")
	s.inside(t, at, "5-1", "secret").do("SET", "key", "another")
	// All allowed forms of a password.
	for _, password := range []string{"x", strings.Repeat("p", 63), "with blanks and ünïcode ☃", "**", `"'\$(id)`, "maxsize", "0", " "} {
		spec.Password = password
		s.create(t, spec)
		s.inside(t, at, "5-1", password).do("SET", "key", password)
		s.user(t, at).refused("SELECT", "5-1", "secret")
	}
	spec.Password = ""
	s.create(t, spec)
	s.inside(t, at, "5-1").do("SET", "key", "free")
	// Errors never repeat a password.
	for _, password := range []string{"hush" + strings.Repeat("h", 60), "hush\n", "hush\x00", "hush\xff", "*", "hush\x7f"} {
		spec.Password = password
		_, err := s.Client.Create(t.Context(), spec)
		expect.Kind(t, err, node.Invalid)
		expect.Text(t, err, "data.password", "5-1")
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	s.inside(t, at, "5-1").do("SET", "key", "still free")
}

func zdbFull(t *testing.T, s Subject) {
	at := s.attach(t, zdbOne, workload.ZDBUser)
	spec := node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: 1000}
	s.create(t, spec)
	client := s.inside(t, at, "5-1")
	client.do("SET", "first", strings.Repeat("x", 900))
	client.refused("SET", "second", strings.Repeat("x", 101))
	spec.Size = 1001
	s.create(t, spec)
	client.do("SET", "second", strings.Repeat("x", 101))
	// A limit below the present use is accepted: writes fail, all can be read.
	spec.Size = 10
	if got := s.create(t, spec); got.Used != 1001 {
		t.Errorf("it is %+v", got)
	}
	client.refused("SET", "third", "x")
	if value := client.do("GET", "second"); len(value) != 101 {
		t.Errorf("the value has %d bytes", len(value))
	}
}

func zdbSequential(t *testing.T, s Subject) {
	at := s.attach(t, zdbTwo, workload.ZDBSeq)
	made := s.create(t, node.ZDBNamespaceSpec{Container: zdbTwo, Name: "5-1", Size: expect.MiB})
	if made.Mode != workload.ZDBSeq {
		t.Errorf("created %+v", made)
	}
	client := s.inside(t, at, "5-1")
	first, second := client.do("SET", "", "one"), client.do("SET", "", "two")
	if first == second || first == "" || client.do("GET", first) != "one" || client.do("GET", second) != "two" {
		t.Errorf("IDs are %q and %q", first, second)
	}
	client.refused("SET", "mine", "three")
}

func zdbDelete(t *testing.T, s Subject) {
	at := s.attach(t, zdbOne, workload.ZDBUser)
	spec := node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: expect.MiB, Password: "secret"}
	s.create(t, spec)
	s.create(t, node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-10", Size: expect.MiB})
	client := s.inside(t, at, "5-1", "secret")
	client.do("SET", "key", "value")
	s.inside(t, at, "5-10").do("SET", "key", "of another")
	expect.NoError(t, s.Client.Delete(t.Context(), zdbOne, "5-1"))
	expect.Kind(t, s.Client.Delete(t.Context(), zdbOne, "5-1"), node.NotExist)
	if reply, err := client.Do("GET", "key"); err == nil {
		t.Errorf("who was in it reads %v", reply)
	}
	s.user(t, at).refused("SELECT", "5-1", "secret")
	list, err := s.Client.List(t.Context(), zdbOne)
	expect.NoError(t, err)
	if len(list) != 1 || list[0].Name != "5-10" || list[0].Used == 0 {
		t.Errorf("listed %+v", list)
	}
	// A namespace of the same name is a new one.
	spec.Password = ""
	if got := s.create(t, spec); got.Used != 0 || got.Protected {
		t.Errorf("created again: %+v", got)
	}
	if value, err := redis.Bytes(s.inside(t, at, "5-1").Do("GET", "key")); err != redis.ErrNil { //nolint:errorlint // redigo never wraps it
		t.Errorf("it has %q, %v", value, err)
	}
}

func zdbList(t *testing.T, s Subject) {
	s.attach(t, zdbOne, workload.ZDBUser)
	s.attach(t, zdbTwo, workload.ZDBSeq)
	want := map[string]string{}
	for i := range 20 {
		container := []string{zdbOne, zdbTwo}[i%2]
		name := strconv.Itoa(i) + "-1"
		s.create(t, node.ZDBNamespaceSpec{Container: container, Name: name, Size: expect.MiB})
		want[name] = container
	}
	all, err := s.Client.List(t.Context(), "")
	expect.NoError(t, err)
	got := map[string]string{}
	for _, one := range all {
		got[one.Name] = one.Container
	}
	if len(all) != len(want) || !reflect.DeepEqual(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	some, err := s.Client.List(t.Context(), zdbTwo)
	expect.NoError(t, err)
	if len(some) != 10 || some[0].Container != zdbTwo || some[0].Mode != workload.ZDBSeq {
		t.Errorf("listed %+v", some)
	}
	servers, err := s.Client.Servers(t.Context())
	expect.NoError(t, err)
	if len(servers) != 2 || servers[0].Namespaces != 10 || servers[1].Namespaces != 10 {
		t.Errorf("in hand: %+v", servers)
	}
}

func zdbBadNamespaces(t *testing.T, s Subject) {
	s.attach(t, zdbOne, workload.ZDBUser)
	for _, name := range append(expect.BadNames(), "default") {
		_, err := s.Client.Create(t.Context(), node.ZDBNamespaceSpec{Container: zdbOne, Name: name, Size: expect.MiB})
		expect.Kind(t, err, node.Invalid)
		expect.Kind(t, s.Client.Delete(t.Context(), zdbOne, name), node.Invalid)
		_, err = s.Client.Inspect(t.Context(), zdbOne, name)
		expect.Kind(t, err, node.Invalid)
	}
	for _, size := range []uint64{0, math.MaxInt64 + 1, expect.Most} {
		_, err := s.Client.Create(t.Context(), node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: size})
		expect.Kind(t, err, node.Invalid)
		expect.Text(t, err, "data.size", strconv.FormatUint(size, 10))
	}
	list, err := s.Client.List(t.Context(), zdbOne)
	expect.NoError(t, err)
	if len(list) != 0 {
		t.Errorf("listed %+v", list)
	}
}

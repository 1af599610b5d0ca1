package zdb

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	zdbOne = "zdb-ssd0-user"
	zdbTwo = "zdb-ssd0-seq"
)

func zdbAttach(t *testing.T, s Subject) {
	none, err := s.Client.Servers(t.Context())
	expect.NoError(t, err)
	if len(none) != 0 {
		t.Fatalf("in hand: %+v", none)
	}
	spec := s.Start(t, zdbOne, workload.ZDBUser)
	at := s.attachSpec(t, spec)
	if at.Container != spec.Container || at.Mode != spec.Mode || at.Data != spec.Data || at.Port == 0 || at.Namespaces != 0 || at.IPv4 == "" || at.IPv6 == "" {
		t.Errorf("attached %+v with %+v", at, spec)
	}
	if got := s.one(t); !reflect.DeepEqual(got, at) {
		t.Errorf("listed %+v, attached %+v", got, at)
	}
	for _, ip := range []string{at.IPv4, at.IPv6} {
		if pong := s.userAt(t, ip, at.Port).do("PING"); pong != "PONG" {
			t.Errorf("%s answers %q", ip, pong)
		}
	}
	// Without a namespace nobody may write, and nobody is admin.
	client := s.user(t, at)
	client.refused("SET", "key", "value")
	client.refused("NSNEW", "mine")
	client.refused("NSSET", "default", "public", "1")
	client.refused("NSDEL", "default")
}

func zdbAttachTwice(t *testing.T, s Subject) {
	spec := s.Start(t, zdbOne, workload.ZDBUser)
	first := s.attachSpec(t, spec)
	client := s.user(t, first)
	if again := s.attachSpec(t, spec); !reflect.DeepEqual(again, first) {
		t.Errorf("attached twice: %+v, then %+v", first, again)
	}
	if got := s.one(t); !reflect.DeepEqual(got, first) {
		t.Errorf("listed %+v, attached %+v", got, first)
	}
	if pong := client.do("PING"); pong != "PONG" {
		t.Errorf("who was connected hears %q", pong)
	}
	if pong := s.user(t, first).do("PING"); pong != "PONG" {
		t.Errorf("it answers %q", pong)
	}
}

func zdbAttachNothing(t *testing.T, s Subject) {
	spec := node.ZDBServerSpec{Container: zdbOne, Mode: workload.ZDBUser, Data: t.TempDir()}
	for _, data := range []string{spec.Data, spec.Data + "/nowhere"} {
		spec.Data = data
		_, err := s.Client.Attach(t.Context(), spec)
		expect.Kind(t, err, node.Transient)
		expect.Text(t, err, zdbOne)
	}
	list, err := s.Client.Servers(t.Context())
	expect.NoError(t, err)
	if len(list) != 0 {
		t.Errorf("in hand: %+v", list)
	}
}

func zdbAttachMode(t *testing.T, s Subject) {
	spec := s.Start(t, zdbOne, workload.ZDBSeq)
	wrong := spec
	wrong.Mode = workload.ZDBUser
	var err error
	eventually(t, func() bool {
		_, err = s.Client.Attach(t.Context(), wrong)
		return node.KindOf(err) != node.Transient
	}, func() any { return err })
	expect.Kind(t, err, node.Exist)
	expect.Text(t, err, "mode")
	at := s.attachSpec(t, spec)
	_, err = s.Client.Attach(t.Context(), wrong)
	expect.Kind(t, err, node.Exist)
	if got := s.one(t); !reflect.DeepEqual(got, at) {
		t.Errorf("listed %+v, attached %+v", got, at)
	}
}

func zdbDetach(t *testing.T, s Subject) {
	spec := s.Start(t, zdbOne, workload.ZDBUser)
	at := s.attachSpec(t, spec)
	client := s.user(t, at)
	expect.NoError(t, s.Client.Detach(t.Context(), zdbOne))
	expect.Kind(t, s.Client.Detach(t.Context(), zdbOne), node.NotExist)
	list, err := s.Client.Servers(t.Context())
	expect.NoError(t, err)
	if len(list) != 0 {
		t.Errorf("in hand: %+v", list)
	}
	// The zdb still runs, and may have the socket open: others get no access.
	conn, err := s.Dial(t.Context(), at.IPv4, at.Port)
	if err == nil {
		conn.Close()
		t.Error("its port still takes connections")
	}
	if pong := client.do("PING"); pong != "PONG" {
		t.Errorf("who was connected hears %q", pong)
	}
	// Its port goes to the next one, and it can come back.
	other := s.attach(t, zdbTwo, workload.ZDBSeq)
	back := s.attachSpec(t, spec)
	if other.Port != at.Port || back.Port == at.Port {
		t.Errorf("it had port %d, the other one got %d, and it %d", at.Port, other.Port, back.Port)
	}
	if pong := s.user(t, back).do("PING"); pong != "PONG" {
		t.Errorf("it answers %q", pong)
	}
}

func zdbAllPorts(t *testing.T, s Subject) {
	ports := map[uint16]bool{}
	var last uint16
	for i := range zdbPorts {
		at := s.attach(t, "zdb-"+strconv.Itoa(i), workload.ZDBUser)
		if ports[at.Port] || at.Port < last {
			t.Errorf("port %d was given again, or after %d", at.Port, last)
		}
		ports[at.Port], last = true, at.Port
	}
	spec := s.Start(t, "zdb-more", workload.ZDBUser)
	var err error
	eventually(t, func() bool {
		_, err = s.Client.Attach(t.Context(), spec)
		return node.KindOf(err) != node.Transient
	}, func() any { return err })
	expect.Kind(t, err, node.NoSpace)
	list, err := s.Client.Servers(t.Context())
	expect.NoError(t, err)
	if len(list) != zdbPorts {
		t.Errorf("in hand: %+v", list)
	}
	expect.NoError(t, s.Client.Detach(t.Context(), "zdb-1"))
	s.attachSpec(t, spec)
}

func zdbRemoveNothing(t *testing.T, s Subject) {
	expect.Kind(t, s.Client.Detach(t.Context(), zdbOne), node.NotExist)
	expect.Kind(t, s.Client.Delete(t.Context(), zdbOne, "5-1"), node.NotExist)
	_, err := s.Client.Create(t.Context(), node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: expect.MiB})
	expect.Kind(t, err, node.NotExist)
	_, err = s.Client.Inspect(t.Context(), zdbOne, "5-1")
	expect.Kind(t, err, node.NotExist)
	_, err = s.Client.List(t.Context(), zdbOne)
	expect.Kind(t, err, node.NotExist)
	s.attach(t, zdbOne, workload.ZDBUser)
	expect.Kind(t, s.Client.Delete(t.Context(), zdbOne, "5-1"), node.NotExist)
	_, err = s.Client.Inspect(t.Context(), zdbOne, "5-1")
	expect.Kind(t, err, node.NotExist)
	list, err := s.Client.List(t.Context(), zdbOne)
	expect.NoError(t, err)
	if list == nil || len(list) != 0 {
		t.Errorf("listed %+v", list)
	}
}

func zdbRestart(t *testing.T, s Subject) {
	s.attach(t, zdbOne, workload.ZDBUser)
	s.create(t, node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: expect.MiB, Public: true})
	before := s.one(t)
	client := s.user(t, before)
	client.do("SELECT", "5-1")
	client.do("SET", "key", "value")
	s.Client = s.Restart(t)
	if after := s.one(t); !reflect.DeepEqual(after, before) || after.Namespaces != 1 {
		t.Errorf("after a restart it is %+v, was %+v", after, before)
	}
	if value := client.do("GET", "key"); value != "value" {
		t.Errorf("who was connected reads %q", value)
	}
	if pong := s.user(t, before).do("PING"); pong != "PONG" {
		t.Errorf("it answers %q", pong)
	}
	// Both end, and come back one after the other.
	s.Kill(t, zdbOne)
	s.Client = s.Restart(t)
	if without := s.one(t); without.Drift == "" || without.Port != before.Port {
		t.Errorf("without its zdb it is %+v", without)
	}
	s.Start(t, zdbOne, workload.ZDBUser)
	if after := s.whole(t); !reflect.DeepEqual(after, before) {
		t.Errorf("back it is %+v, was %+v", after, before)
	}
	client = s.user(t, before)
	client.do("SELECT", "5-1")
	if value := client.do("GET", "key"); value != "value" {
		t.Errorf("the value is %q", value)
	}
	// A detached one stays detached.
	expect.NoError(t, s.Client.Detach(t.Context(), zdbOne))
	s.Client = s.Restart(t)
	list, err := s.Client.Servers(t.Context())
	expect.NoError(t, err)
	if len(list) != 0 {
		t.Errorf("in hand: %+v", list)
	}
}

func zdbServerRestart(t *testing.T, s Subject) {
	at := s.attach(t, zdbOne, workload.ZDBUser)
	s.create(t, node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: expect.MiB})
	at.Namespaces = 1
	s.Kill(t, zdbOne)
	if without := s.one(t); without.Drift == "" || without.Port != at.Port {
		t.Errorf("without its zdb it is %+v", without)
	}
	_, err := s.Client.Create(t.Context(), node.ZDBNamespaceSpec{Container: zdbOne, Name: "6-1", Size: expect.MiB})
	expect.Kind(t, err, node.Transient)
	expect.Kind(t, s.Client.Delete(t.Context(), zdbOne, "5-1"), node.Transient)
	_, err = s.Client.Inspect(t.Context(), zdbOne, "5-1")
	expect.Kind(t, err, node.Transient)
	for _, container := range []string{zdbOne, ""} {
		_, err = s.Client.List(t.Context(), container)
		expect.Kind(t, err, node.Transient)
	}
	_, err = s.Client.Attach(t.Context(), node.ZDBServerSpec{Container: zdbOne, Mode: at.Mode, Data: at.Data})
	expect.Kind(t, err, node.Transient)
	// New connections meanwhile wait in the listener's queue.
	waiting := make(chan string, 3)
	for range cap(waiting) {
		client := s.user(t, at)
		go func() {
			pong, err := redis.String(client.Do("PING"))
			if err != nil {
				pong = err.Error()
			}
			waiting <- pong
		}()
	}
	s.Start(t, zdbOne, workload.ZDBUser)
	for range cap(waiting) {
		select {
		case pong := <-waiting:
			if pong != "PONG" {
				t.Errorf("who has waited hears %q", pong)
			}
		case <-time.After(expect.Patience):
			t.Fatal("who has waited hears nothing")
		}
	}
	if after := s.whole(t); !reflect.DeepEqual(after, at) {
		t.Errorf("back it is %+v, was %+v", after, at)
	}
	list, err := s.Client.List(t.Context(), zdbOne)
	expect.NoError(t, err)
	if len(list) != 1 || list[0].Name != "5-1" {
		t.Errorf("listed %+v", list)
	}
}

func zdbBadServers(t *testing.T, s Subject) {
	good := node.ZDBServerSpec{Container: zdbOne, Mode: workload.ZDBUser, Data: t.TempDir()}
	change := func(do func(*node.ZDBServerSpec)) node.ZDBServerSpec {
		spec := good
		do(&spec)
		return spec
	}
	var bad []node.ZDBServerSpec
	for _, name := range expect.BadNames() {
		bad = append(bad, change(func(s *node.ZDBServerSpec) { s.Container = name }))
		expect.Kind(t, s.Client.Detach(t.Context(), name), node.Invalid)
		_, err := s.Client.Inspect(t.Context(), name, "5-1")
		expect.Kind(t, err, node.Invalid)
		expect.Kind(t, s.Client.Delete(t.Context(), name, "5-1"), node.Invalid)
		if name != "" {
			_, err = s.Client.List(t.Context(), name)
			expect.Kind(t, err, node.Invalid)
		}
	}
	for _, mode := range []workload.ZDBMode{"", "seqential", "USER"} {
		bad = append(bad, change(func(s *node.ZDBServerSpec) { s.Mode = mode }))
	}
	for _, data := range []string{"", ".", "relative", "/", "/a/../b", "/a/", "/a\x00b"} {
		bad = append(bad, change(func(s *node.ZDBServerSpec) { s.Data = data }))
	}
	for _, spec := range bad {
		_, err := s.Client.Attach(t.Context(), spec)
		expect.Kind(t, err, node.Invalid)
	}
	// Two can't share one volume.
	at := s.attach(t, zdbOne, workload.ZDBUser)
	_, err := s.Client.Attach(t.Context(), node.ZDBServerSpec{Container: zdbTwo, Mode: at.Mode, Data: at.Data})
	expect.Kind(t, err, node.Invalid)
	expect.Text(t, err, zdbOne)
	if got := s.one(t); !reflect.DeepEqual(got, at) {
		t.Errorf("listed %+v, attached %+v", got, at)
	}
}

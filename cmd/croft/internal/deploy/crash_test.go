package deploy_test

import (
	"fmt"
	"sort"
	"testing"
)

const before = `
  data:
    volume: {size: 10, type: SSD}
  scratch:
    volume: {size: 1, type: HDD}
  web:
    container:
      flist: x
      capacity: {cpu: 1, memory: 64}
      network: {network_id: n, ips: [10.0.0.2]}
      mounts: [{volume: data, mountpoint: /data}]
      secret_env: {TOKEN: {secret: env:TOKEN}}
`

// after changes data and so replaces web, takes scratch away, and adds more.
const after = `
  data:
    volume: {size: 20, type: SSD}
  more:
    volume: {size: 3, type: SSD}
  web:
    container:
      flist: x
      capacity: {cpu: 1, memory: 64}
      network: {network_id: n, ips: [10.0.0.2]}
      mounts: [{volume: data, mountpoint: /data}]
      secret_env: {TOKEN: {secret: env:TOKEN}}
`

// crash stops the program at a point.
type crash struct{}

// TestCrashPoints: stopped before and after every call that changes something
// at the explorer, and applied again, the project is what the file asks for:
// nothing is missing, nothing is doubled, nothing is left over. (The state is
// written between two calls, so a stop around a write is one of these.)
func TestCrashPoints(t *testing.T) {
	points := 0
	for stopAt := 1; ; stopAt++ {
		u := newUser(t)
		if _, err := u.apply(u.deployer(), u.file(before)); err != nil {
			t.Fatal(err)
		}
		if !crashes(u, stopAt) {
			break
		}
		points++
		if _, err := u.apply(u.deployer(), u.file(after)); err != nil {
			t.Fatalf("point %d: %v", stopAt, err)
		}
		checkConverged(t, u, fmt.Sprintf("point %d", stopAt))
	}
	if points < 12 {
		t.Fatalf("only %d points: three deletions and three pushes have two each", points)
	}
	t.Logf("%d crash points", points)
}

// crashes applies after and stops at the point of that number; false when
// there are fewer points.
func crashes(u *user, stopAt int) bool {
	return u.stopped(stopAt, func() {
		if _, err := u.apply(u.deployer(), u.file(after)); err != nil {
			u.t.Fatal(err)
		}
	})
}

// stopped does something that is stopped at the point of that number; false when there
// are fewer points.
func (u *user) stopped(stopAt int, do func()) (crashed bool) {
	n := 0
	hook := func(string) {
		if n++; n == stopAt {
			panic(crash{})
		}
	}
	u.fake.before, u.fake.after = hook, hook
	defer func() {
		u.fake.before, u.fake.after = func(string) {}, func(string) {}
		if r := recover(); r != nil {
			if _, ours := r.(crash); !ours {
				panic(r)
			}
			crashed = true
		}
	}()
	do()
	return false
}

func checkConverged(t *testing.T, u *user, when string) {
	t.Helper()
	alive := u.fake.alive()
	sort.Strings(alive)
	if len(alive) != 3 || alive[1] != `volume {"size":20,"type":"SSD"}` || alive[2] != `volume {"size":3,"type":"SSD"}` {
		t.Errorf("%s: the explorer has\n%s", when, text(alive))
	}
	d := u.deployer()
	p, err := u.plan(d, u.file(after))
	if err != nil || p.Changed() {
		t.Errorf("%s: there is still something to do: %+v, %v", when, p.Changes, err)
	}
	if len(d.State.Leaving) != 0 {
		t.Errorf("%s: %d reservations are still leaving", when, len(d.State.Leaving))
	}
	volume, web := d.State.Current["data"], d.State.Current["web"]
	if web.Uses["data"] != volume.ID {
		t.Errorf("%s: web holds volume %s, and data is %s", when, web.Uses["data"], volume.ID)
	}
}

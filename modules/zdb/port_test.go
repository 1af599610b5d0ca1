package zdb_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-edge/croft/modules/zdb"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestTheLowestFreePort passes over those that somebody else has.
func TestTheLowestFreePort(t *testing.T) {
	w := newWorld(t)
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.cfg.FirstPort))
	must(t, err)
	defer other.Close()
	if at := w.attach(one, workload.ZDBUser); at.Port != w.cfg.FirstPort+1 {
		t.Errorf("its port is %d, want %d", at.Port, w.cfg.FirstPort+1)
	}
	other.Close()
	if at := w.attach("zdb-ssd0-seq", workload.ZDBSeq); at.Port != w.cfg.FirstPort {
		t.Errorf("the next one's is %d, want %d", at.Port, w.cfg.FirstPort)
	}
	if at := w.attach("zdb-hdd0-seq", workload.ZDBSeq); at.Port != w.cfg.FirstPort+2 {
		t.Errorf("the last one's is %d, want %d", at.Port, w.cfg.FirstPort+2)
	}
}

// TestAPortThatIsTaken while all are away is said and tried again; it never
// becomes another.
func TestAPortThatIsTaken(t *testing.T) {
	w := newWorld(t)
	before := w.attach(one, workload.ZDBUser)
	w.close()
	w.kill(one)
	other, err := net.Listen("tcp", fmt.Sprintf(":%d", before.Port))
	must(t, err)
	defer other.Close()
	w.open()
	says := fmt.Sprintf("its port %d is taken by somebody else", before.Port)
	w.drift(one, says)
	spec := w.start(one, workload.ZDBUser)
	var at node.ZDBServer
	eventually(t, func() bool {
		at, err = w.stub.Attach(t.Context(), spec)
		return node.KindOf(err) == node.Busy
	}, func() any { return fmt.Sprintf("%+v, %v", at, err) })
	if !strings.Contains(err.Error(), says) {
		t.Errorf("it is %v", err)
	}
	if at := w.server(one); at.Port != before.Port || !strings.Contains(at.Drift, says) {
		t.Errorf("it is %+v", at)
	}
	w.restart()
	w.drift(one, says)
	other.Close()
	w.drift(one, "")
	if after := w.server(one); !reflect.DeepEqual(after, before) {
		t.Errorf("it is %+v, was %+v", after, before)
	}
	must(t, ping(before.Port))
	if n := strings.Count(w.log.String(), says); n > 6 {
		t.Errorf("it was logged %d times", n)
	}
}

// TestOtherRanges don't move a port that a container keeps.
func TestOtherRanges(t *testing.T) {
	w := newWorld(t)
	before := w.attach(one, workload.ZDBUser)
	w.close()
	w.cfg.FirstPort, w.cfg.LastPort = w.cfg.FirstPort+1, w.cfg.FirstPort+1
	w.open()
	if after := w.server(one); !reflect.DeepEqual(after, before) {
		t.Errorf("it is %+v, was %+v", after, before)
	}
	must(t, ping(before.Port))
}

// TestMovedVolume with its volume, and keeps its port.
func TestMovedVolume(t *testing.T) {
	w := newWorld(t)
	before := w.attach(one, workload.ZDBUser)
	w.kill(one)
	must(t, os.Rename(w.data(one), w.data("moved")))
	spec := w.start("moved", workload.ZDBUser)
	spec.Container = one
	after := w.attachSpec(spec)
	if after.Port != before.Port || after.Data != spec.Data || after.Drift != "" {
		t.Errorf("it is %+v, was %+v", after, before)
	}
	must(t, ping(before.Port))
	// It is watched at its new place.
	w.kill("moved")
	w.start("moved", workload.ZDBUser)
	w.drift(one, "")
	must(t, ping(before.Port))
}

// TestOneAddress is all that answers where it was named, also where all did before.
func TestOneAddress(t *testing.T) {
	w := newWorld(t)
	at := w.attach(one, workload.ZDBUser)
	w.close()
	w.cfg.Listen = netip.MustParseAddr(nodeIPv4)
	w.open()
	w.drift(one, "")
	must(t, ping(at.Port))
	if conn, err := net.Dial("tcp", net.JoinHostPort(nodeIPv6, strconv.Itoa(int(at.Port)))); err == nil {
		conn.Close()
		t.Error("it answers at another address")
	}
	if got := w.server(one); got.IPv4 != nodeIPv4 || got.IPv6 != "" {
		t.Errorf("it is %+v", got)
	}
}

// TestAnAddressThatIsNotHere is a reason, not a port that is taken.
func TestAnAddressThatIsNotHere(t *testing.T) {
	w := newWorld(t)
	w.close()
	w.cfg.Listen = netip.MustParseAddr("10.99.99.99")
	w.open()
	spec := w.start(one, workload.ZDBUser)
	var err error
	eventually(t, func() bool {
		_, err = w.stub.Attach(t.Context(), spec)
		return err != nil && strings.Contains(err.Error(), "can be listened on")
	}, func() any { return err })
	if node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "cannot assign requested address") {
		t.Errorf("it is %v (%s)", err, node.KindOf(err))
	}
}

func TestUnusableStateDir(t *testing.T) {
	w := emptyWorld(t)
	must(t, os.WriteFile(filepath.Join(w.dir, "file"), nil, 0o600))
	bad := w.cfg
	bad.StateDir = filepath.Join(w.dir, "file")
	if _, err := zdb.Open(t.Context(), bad); node.KindOf(err) != node.Internal {
		t.Errorf("it is %v", err)
	}
	bad.StateDir = "relative"
	if _, err := zdb.Open(t.Context(), bad); node.KindOf(err) != node.Invalid {
		t.Errorf("it is %v", err)
	}
}

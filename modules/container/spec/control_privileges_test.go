package spec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/spec"
)

const (
	// all are croft's seven: the kernel's bits 0, 1, 3, 5, 6, 7 and 10.
	all  = "00000000000004eb"
	none = "0000000000000000"
)

func checkCapabilities(t *testing.T, who string, status, want map[string]string) {
	t.Helper()
	for set, mask := range want {
		if status[set] != mask {
			t.Errorf("%s has %s %s, want %s", who, set, status[set], mask)
		}
	}
}

func TestControlCapabilities(t *testing.T) {
	c := newContainer(t)
	checkCapabilities(t, "root", ask[map[string]string](c, "status"),
		map[string]string{"CapBnd": all, "CapPrm": all, "CapEff": all, "CapInh": none, "CapAmb": none})
	c.Process.UID, c.Process.GID = 1000, 1000
	checkCapabilities(t, "another user", ask[map[string]string](c, "status"),
		map[string]string{"CapBnd": all, "CapPrm": none, "CapEff": none, "CapInh": none, "CapAmb": none})
}

// Root of a container without capabilities is a plain user, and no program that
// it starts makes more of it.
func TestControlNoCapabilities(t *testing.T) {
	c := newContainer(t)
	others := filepath.Join(c.Root, "others")
	c.must(os.WriteFile(others, nil, 0o600))
	c.must(os.Chown(others, int(c.Base)+1000, int(c.Base)+1000))
	if got := ask[map[string]string](c, "write", "/others"); got["/others"] != "ok" {
		t.Fatalf("with capabilities its root can't write a file of another user: %v: this test shows nothing", got)
	}
	c.NoCapabilities = true
	nothing := map[string]string{"CapBnd": none, "CapPrm": none, "CapEff": none, "CapInh": none, "CapAmb": none}
	status := ask[map[string]string](c, "status")
	checkCapabilities(t, "root", status, nothing)
	if status["Uid"] != "0 0 0 0" || status["NoNewPrivs"] != "1" || status["Seccomp"] != "2" {
		t.Errorf("without capabilities it is of user %s, NoNewPrivs %s, seccomp in mode %s", status["Uid"], status["NoNewPrivs"], status["Seccomp"])
	}
	c.Process.Args = []string{"/probe"}
	checkCapabilities(t, "what root starts", ask[map[string]string](c, "start", "/probe", "status"), nothing)
	c.Process.Args = []string{"/probe"}
	if got := ask[map[string]string](c, "write", "/others", "/mine"); got["/others"] != "EACCES" || got["/mine"] != "ok" {
		t.Errorf("writing a file of another user and one of its own gives %v", got)
	}
	checkCalls(t, "root without capabilities", ask[map[string]string](c, "calls"))
	c.Process.UID, c.Process.GID = 1000, 1000
	checkCapabilities(t, "another user", ask[map[string]string](c, "status"), nothing)
}

func TestControlUserNamespace(t *testing.T) {
	c := newContainer(t)
	status := ask[map[string]string](c, "status")
	want := "0 " + strconv.FormatUint(uint64(c.Base), 10) + " 65536"
	for _, name := range []string{"uid_map", "gid_map"} {
		if status[name] != want {
			t.Errorf("%s is %q, want %q", name, status[name], want)
		}
	}
	if status["Uid"] != "0 0 0 0" {
		t.Errorf("the first process is %s, want root of the container", status["Uid"])
	}
	if got := ask[map[string]string](c, "write", "/made"); got["/made"] != "ok" {
		t.Fatalf("its root can't write in its own root folder: %v", got)
	}
	var made unix.Stat_t
	c.must(unix.Stat(filepath.Join(c.Root, "made"), &made))
	if made.Uid != c.Base || made.Gid != c.Base {
		t.Errorf("its root is %d:%d on the node, want %d", made.Uid, made.Gid, c.Base)
	}
}

// A program with the set-user-ID bit is that of any image's su or sudo.
func TestControlNoNewPrivileges(t *testing.T) {
	c := newContainer(t)
	c.Process.UID, c.Process.GID = 1000, 1000
	status := ask[map[string]string](c, "start", "/setuid", "status")
	if status["NoNewPrivs"] != "1" {
		t.Errorf("NoNewPrivs is %s", status["NoNewPrivs"])
	}
	if status["Uid"] != "1000 1000 1000 1000" || status["Gid"] != "1000 1000 1000 1000" || status["CapEff"] != none {
		t.Errorf("a set-user-ID program made user 1000 uid %s, gid %s, capabilities %s", status["Uid"], status["Gid"], status["CapEff"])
	}
	c.change = func(s *specs.Spec) { s.Process.NoNewPrivileges = false }
	if status := ask[map[string]string](c, "start", "/setuid", "status"); !strings.HasPrefix(status["Uid"], "1000 0 ") {
		t.Errorf("without the control the same program runs as %s: this test shows nothing", status["Uid"])
	}
}

// refusedCalls is each call that the probe tries, and how it must be refused.
func refusedCalls() map[string]string {
	out := map[string]string{"clone3": "ENOSYS", "nice": "EACCES"}
	for name := range strings.SplitSeq("acct,add_key,bpf,clock_settime,delete_module,finit_module,init_module,io_uring_setup,"+
		"ioperm,iopl,kexec_load,keyctl,lookup_dcookie,open_by_handle_at,perf_event_open,quotactl,reboot,request_key,"+
		"setrlimit,settimeofday,swapon,syslog,userfaultfd,vhangup,"+
		"chroot,clone user,fsopen,mknod block,mknod char,mount,mount_setattr,open_tree,pivot_root,remount,setdomainname,"+
		"sethostname,setns,umount,unshare net,unshare user,"+
		"socket alg,socket packet,socket raw,socket raw6,socket vsock", ",") {
		out[name] = "EPERM"
	}
	return out
}

func checkCalls(t *testing.T, who string, answers map[string]string) {
	t.Helper()
	want := refusedCalls()
	for name, errno := range want {
		if answers[name] != errno {
			t.Errorf("%s calls %s: %q, want %s", who, name, answers[name], errno)
		}
	}
	if len(answers) != len(want) {
		t.Errorf("the probe tries %d calls, %d are known here", len(answers), len(want))
	}
}

func TestControlSeccomp(t *testing.T) {
	c := newContainer(t)
	if status := ask[map[string]string](c, "status"); status["Seccomp"] != "2" || status["Seccomp_filters"] != "1" {
		t.Errorf("seccomp is in mode %s with %s filters", status["Seccomp"], status["Seccomp_filters"])
	}
	checkCalls(t, "root", ask[map[string]string](c, "calls"))
	c.Process.UID, c.Process.GID = 1000, 1000
	checkCalls(t, "another user", ask[map[string]string](c, "calls"))
}

// What the probe is refused is refused by the controls, not by accident.
func TestWithoutControlsTheProbeGetsThrough(t *testing.T) {
	c := newContainer(t)
	c.change = func(s *specs.Spec) {
		s.Linux.Seccomp = nil
		sets := s.Process.Capabilities
		sets.Bounding = append(sets.Bounding, "CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_NET_RAW")
		sets.Permitted, sets.Effective = sets.Bounding, sets.Bounding
	}
	answers := ask[map[string]string](c, "calls")
	for name := range strings.SplitSeq("chroot,clone user,mount,setdomainname,sethostname,setns,unshare net,socket packet,socket raw,socket raw6", ",") {
		if answers[name] != "ok" {
			t.Errorf("%s: %s, want it to work without the controls", name, answers[name])
		}
	}
	// The user namespace alone holds these.
	for name := range strings.SplitSeq("acct,clock_settime,mknod block,mknod char,reboot,settimeofday,swapon", ",") {
		if answers[name] != "EPERM" {
			t.Errorf("%s: %s, want EPERM also without the other controls", name, answers[name])
		}
	}
}

func TestControlTracing(t *testing.T) {
	c := newContainer(t)
	if got := ask[string](c, "trace", "other", "1000"); got != "EPERM" {
		t.Errorf("root traces a process of another user: %s", got)
	}
	if got := ask[string](c, "trace", "same"); got != "ok" {
		t.Errorf("a process traces its own child: %s, want a debugger to work", got)
	}
}

// Of all 256 types of ioctls only btrfs's are refused, whatever stands in the
// bits that the kernel ignores.
func TestControlIoctls(t *testing.T) {
	c := newContainer(t)
	for how, refused := range ask[map[string][]int](c, "ioctls") {
		if len(refused) != 1 || refused[0] != 0x94 {
			t.Errorf("%s requests are refused for types %v, want 148 (0x94) alone", how, refused)
		}
	}
}

// What a 32 bit program asks for by socketcall no filter could see: such programs
// end at their first call.
func TestControlSeccompOf32BitPrograms(t *testing.T) {
	if probe32 == "" {
		t.Log("this kind of machine has no such programs")
		return
	}
	c := newContainer(t)
	c.Process.Args = []string{"/probe32"}
	const killed = 128 + int(unix.SIGSYS)
	if answers, err := tryAsk[map[string]string](c, "calls"); err == nil || !strings.Contains(err.Error(), fmt.Sprint("exit status ", killed)) {
		t.Errorf("a 32 bit program isn't ended by SIGSYS: %v, %v", err, answers)
	}
	// With the architecture allowed, as containerd's profile has it, it runs, and
	// the kernel itself is asked for these sockets.
	c = newContainer(t)
	c.Process.Args = []string{"/probe32"}
	c.change = func(s *specs.Spec) {
		s.Linux.Seccomp.Architectures = append(s.Linux.Seccomp.Architectures, specs.ArchX86)
	}
	answers := ask[map[string]string](c, "calls")
	for _, name := range []string{"socket alg", "socket vsock"} {
		if answer := answers[name]; answer == "" || answer == "EPERM" {
			t.Errorf("%s: %q, the test is blind: want the kernel's own answer", name, answer)
		}
	}
}

func TestControlBtrfsIoctls(t *testing.T) {
	c := newContainer(t)
	c.mountBtrfs()
	answers := ask[map[string]string](c, "reflinks", "/data")
	want := map[string]string{
		"subvolume": "EPERM", "subvolume, signed": "EPERM", "snapshot": "EPERM", "destroy": "EPERM", "search": "EPERM", "quota": "EPERM",
		"clone": "EPERM", "clone range": "EPERM", "deduplicate": "EPERM", "copy range": "ENOSYS", "window size": "ENOTTY",
	}
	for name, errno := range want {
		if answers[name] != errno {
			t.Errorf("%s: %q, want %s", name, answers[name], errno)
		}
	}
	c.change = func(s *specs.Spec) { s.Linux.Seccomp = nil }
	if answers := ask[map[string]string](c, "reflinks", "/data"); answers["subvolume"] == "EPERM" || answers["snapshot"] == "EPERM" || answers["clone range"] != "ok" {
		t.Errorf("without the control they are refused too: %v: this test shows nothing", answers)
	}
}

// A process that is started later has no more rights than the first one.
func TestControlExec(t *testing.T) {
	c := newContainer(t)
	c.Process.UID, c.Process.GID, c.Process.Groups = 1000, 1000, []uint32{44}
	stop := c.running()
	defer stop()
	built, err := spec.Build(c.Config, c.host)
	c.must(err)
	text, err := json.Marshal(spec.Exec(built, []string{"/probe", "status"}, false, []string{"MORE=1"}))
	c.must(err)
	file := filepath.Join(c.dir, "exec.json")
	c.must(os.WriteFile(file, text, 0o600))
	command := c.runc("exec", "--process", file, c.ID)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("runc exec: %v: %s", err, stderr.String())
	}
	var status map[string]string
	c.must(json.Unmarshal(stdout.Bytes(), &status))
	checkCapabilities(t, "an exec", status, map[string]string{"CapBnd": all, "CapPrm": none, "CapEff": none, "CapInh": none, "CapAmb": none})
	for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "Uid": "1000 1000 1000 1000", "Groups": "44", "oom_score_adj": strconv.Itoa(*built.Process.OOMScoreAdj)} {
		if status[name] != want {
			t.Errorf("an exec's %s is %q, want %q", name, status[name], want)
		}
	}
	if !strings.Contains(status["env"], "MORE=1") || !strings.Contains(status["env"], "PATH=/") {
		t.Errorf("an exec's environment is %q", status["env"])
	}
}

// What a user asks for arrives byte for byte.
func TestTheEnvironmentArrives(t *testing.T) {
	c := newContainer(t)
	value := "one\ntwo\r\n\t'\"\\ $HOME é"
	c.Process.Env = []string{"PATH=/", "LINES=" + value}
	if status := ask[map[string]string](c, "status"); !strings.Contains(status["env"], "LINES="+value+"\n") && !strings.HasSuffix(status["env"], "LINES="+value) {
		t.Errorf("its environment is %q", status["env"])
	}
}

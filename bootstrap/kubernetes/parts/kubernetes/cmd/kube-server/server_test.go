package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func client(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// until asks every 100 ms until the answer is nil, for 3 minutes.
func until(t *testing.T, what string, ask func() error) {
	t.Helper()
	began := time.Now()
	deadline := time.NewTimer(3 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			t.Logf("%5.1f s: %s", time.Since(began).Seconds(), what)
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within 3 minutes: %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// listening are the TCP sockets that somebody listens on in this network namespace, as /proc/net/tcp writes them.
func listening(t *testing.T) (sockets []string) {
	t.Helper()
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); fields[3] == "0A" {
				sockets = append(sockets, fields[1])
			}
		}
	}
	slices.Sort(sockets)
	return sockets
}

func keep(t *testing.T, set *kubernetes.Clientset, name string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}
	if _, err := set.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func kept(t *testing.T, set *kubernetes.Clientset, names ...string) {
	t.Helper()
	for _, name := range names {
		object, err := set.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || object.Data["a"] != "b" {
			t.Errorf("config map %s: %v, %v", name, object.Data, err)
		}
	}
}

// The control plane works, stops cleanly, and keeps its objects over a clean stop and over a sudden death.
func TestControlPlane(t *testing.T) {
	c, admin := cluster(t, t.TempDir())
	s := start(t, c)
	s.starts(t)
	set := client(t, admin)
	checkSocket(t, c.Etcd.Socket())
	checkWork(t, set)
	keep(t, set, "first")
	if n := strings.Count(s.tail(1e6), "request stats"); n > 20 {
		t.Errorf("etcd has warned of %d requests, among them: %s", n, s.tail(1))
	}

	// A kubelet's watch, which nobody closes for the server.
	watch, err := set.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	began := time.Now()
	if code := s.ends(t, syscall.SIGTERM); code != 0 {
		t.Errorf("kube-server ended with code %d after SIGTERM, want 0: %s", code, s.tail(5))
	}
	took := time.Since(began)
	t.Logf("SIGTERM: ended after %.1f s", took.Seconds())
	if took > 12*time.Second {
		t.Errorf("the stop took %s, want 11 s at most and a second for the process", took)
	}
	if _, err := os.Lstat(c.Etcd.Socket()); !os.IsNotExist(err) {
		t.Errorf("the socket is there after a clean stop: %v", err)
	}

	s = start(t, c)
	s.starts(t)
	kept(t, set, "first")
	keep(t, set, "second")
	if code := s.ends(t, syscall.SIGKILL); code != -1 {
		t.Errorf("kube-server ended with code %d, want a death by SIGKILL", code)
	}
	if _, err := os.Lstat(c.Etcd.Socket()); err != nil {
		t.Errorf("a killed process leaves its socket: %v", err)
	}

	s = start(t, c)
	s.starts(t)
	kept(t, set, "first", "second")
	checkOthers(t, c.Etcd.Dir, c.Etcd.SocketDir)
	kept(t, set, "first", "second")
	s.ends(t, syscall.SIGTERM)
}

// checkSocket: only root reaches etcd, and no part listens on a port that nobody knows of.
func checkSocket(t *testing.T, socket string) {
	t.Helper()
	for path, want := range map[string]fs.FileMode{filepath.Dir(socket): fs.ModeDir | 0o700, socket: fs.ModeSocket} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode(); got.Type() != want.Type() || want.IsDir() && got != want {
			t.Errorf("%s has mode %s, want %s", path, got, want)
		}
	}
	// The last two begin to listen a little later.
	want := []string{
		"00000000000000000000000000000000:192B", // [::]:6443, the API server
		"0100007F:2811",                         // 127.0.0.1:10257, the controller manager
		"0100007F:2813",                         // 127.0.0.1:10259, the scheduler
	}
	var got []string
	until(t, "three ports are open", func() error {
		if got = listening(t); len(got) < len(want) {
			return os.ErrNotExist
		}
		return nil
	})
	if !slices.Equal(got, want) {
		t.Errorf("sockets %v are open, want %v", got, want)
	}
}

// checkWork: the controller manager makes the service account that every pod needs and gives a node its addresses; the
// scheduler gives a pod its node.
func checkWork(t *testing.T, set *kubernetes.Clientset) {
	t.Helper()
	core := set.CoreV1()
	until(t, "the default service account is there", func() error {
		_, err := core.ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: corev1.NodeStatus{Capacity: room, Allocatable: room}}
	if _, err := core.Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "one", Image: "localhost/one"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}
	if _, err := core.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the node has addresses for pods", func() error {
		n, err := core.Nodes().Get(t.Context(), "node", metav1.GetOptions{})
		if err == nil && !strings.HasPrefix(n.Spec.PodCIDR, "10.244.") {
			err = os.ErrNotExist
		}
		return err
	})
	until(t, "the pod has a node", func() error {
		p, err := core.Pods("default").Get(t.Context(), "pod", metav1.GetOptions{})
		if err == nil && p.Spec.NodeName != "node" {
			err = os.ErrNotExist
		}
		return err
	})
}

// checkOthers: beside a running control plane at dirs, another one on the same socket does not start, and one of its
// own fails with its name where the ports are taken.
func checkOthers(t *testing.T, dirs ...string) {
	t.Helper()
	c, _ := cluster(t, t.TempDir())
	c.Etcd.SocketDir = dirs[1]
	s := start(t, c)
	if code, want := s.ends(t, 0), "kube-server: etcd: another process listens on "+c.Etcd.Socket(); code != 1 || s.tail(1) != want {
		t.Errorf("on a socket in use: code %d, %q; want 1, %q", code, s.tail(1), want)
	}

	c, _ = cluster(t, t.TempDir())
	s = start(t, c)
	s.says(t, "kube-server: etcd ready")
	if code := s.ends(t, 0); code != 1 || !strings.HasPrefix(s.tail(1), "kube-server: apiserver: ") || !strings.Contains(s.tail(1), "address already in use") {
		t.Errorf("on ports in use: code %d, %q", code, s.tail(1))
	}
}

// Flags are checked before anything starts.
func TestFlagsAreRefused(t *testing.T) {
	for _, f := range []struct{ component, flag, want string }{
		{"apiserver", "--bogus=1", "apiserver: unknown flag: --bogus"},
		{"controller_manager", "--bogus", "controller_manager: unknown flag: --bogus"},
		{"scheduler", "--secure-port=x", "scheduler: invalid argument \"x\" for \"--secure-port\" flag"},
		{"scheduler", "--v=2", "scheduler: --v cannot be given"},
		{"controller_manager", "--logging-format=text", "controller_manager: --logging-format cannot be given"},
		{"apiserver", "--feature-gates=Bogus=true", "apiserver: unrecognized feature gate: Bogus"},
	} {
		t.Run(f.component+f.flag, func(t *testing.T) {
			c, _ := cluster(t, t.TempDir())
			switch f.component {
			case "apiserver":
				c.APIServer = append(c.APIServer, f.flag)
			case "controller_manager":
				c.ControllerManager = append(c.ControllerManager, f.flag)
			default:
				c.Scheduler = append(c.Scheduler, f.flag)
			}
			s := start(t, c)
			if code := s.ends(t, 0); code != 1 || !strings.Contains(s.tail(100), "kube-server: "+f.want) {
				t.Errorf("code %s, %q; want 1, %q", strconv.Itoa(code), s.tail(3), f.want)
			}
			if _, err := os.Lstat(c.Etcd.Dir); !os.IsNotExist(err) {
				t.Errorf("etcd has started: %v", err)
			}
		})
	}
}

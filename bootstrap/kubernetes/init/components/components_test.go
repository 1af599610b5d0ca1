package components_test

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/components"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/pki"
)

func control(dir string) components.Control {
	return components.Control{
		Address: "10.1.2.10", Store: pki.Open(dir, time.Now), CA: dir + "/ca.crt", FrontProxyCA: dir + "/front-proxy-ca.crt",
		Kubeconfigs: "/run/croft/kubeconfigs", Authentication: "/run/croft/authentication.json", Etcd: "/var/lib/etcd", Socket: "/run/kube-server",
	}
}

func document(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestControlPlaneFiles compares the files that the control plane's flags name with those that its certificates are in: each one
// is made, and none is made in vain.
func TestControlPlaneFiles(t *testing.T) {
	dir := t.TempDir()
	config := control(dir).Config()
	named := map[string]bool{}
	for _, flags := range [][]string{config.APIServer, config.ControllerManager, config.Scheduler} {
		for _, flag := range flags {
			name, value, ok := strings.Cut(flag, "=")
			if !ok || !strings.HasPrefix(name, "--") {
				t.Errorf("flag %q must be --NAME=VALUE", flag)
			}
			if strings.HasPrefix(value, dir) {
				named[filepath.Base(value)] = true
			}
		}
	}
	made := map[string]bool{"ca.crt": true, "front-proxy-ca.crt": true, "ca.pem": true, components.ServiceAccounts + ".pem": true}
	inKubeconfigs := []string{components.Admin, components.ControllerManager, components.Scheduler, components.Kubelet}
	for authority, names := range components.Certificates("7-1", nil) {
		if authority != components.ClusterCA && authority != components.FrontProxyCA {
			t.Errorf("authority %s is none of the control plane's", authority)
		}
		for name := range names {
			if !slices.Contains(inKubeconfigs, name) {
				made[name+".pem"] = true
			}
		}
	}
	for name := range named {
		if !made[name] {
			t.Errorf("%s is named by a flag, and isn't made", name)
		}
	}
	for name := range made {
		if !named[name] {
			t.Errorf("%s is made, and no flag names it", name)
		}
	}
}

func TestAPIServerNames(t *testing.T) {
	names := components.Certificates("7-1", []netip.Addr{netip.MustParseAddr("10.1.2.10")})[components.ClusterCA][components.APIServer]
	for _, name := range []string{"7-1", "kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"} {
		if !slices.Contains(names.DNS, name) {
			t.Errorf("the API server's certificate isn't for %s", name)
		}
	}
	for _, a := range []string{"10.1.2.10", "127.0.0.1", cluster.APIService} {
		if !slices.Contains(names.Addresses, netip.MustParseAddr(a)) {
			t.Errorf("the API server's certificate isn't for %s", a)
		}
	}
}

// TestRanges holds that all components are given the same address ranges.
func TestRanges(t *testing.T) {
	config := control(t.TempDir()).Config()
	for _, want := range []string{"--service-cluster-ip-range=" + cluster.Services} {
		if !slices.Contains(config.APIServer, want) || !slices.Contains(config.ControllerManager, want) {
			t.Errorf("the API server or the controller manager lacks %s", want)
		}
	}
	if !slices.Contains(config.ControllerManager, "--cluster-cidr="+cluster.Pods) {
		t.Error("the controller manager has another range of pods")
	}
	n := components.Node{Name: "7-1", Address: "10.1.2.10", CA: "/ca.crt"}
	if got := document(t, n.Proxy("/p"))["clusterCIDR"]; got != cluster.Pods {
		t.Errorf("kube-proxy's range of pods is %v", got)
	}
	if got := document(t, n.Kubelet())["clusterDNS"].([]any); len(got) != 1 || got[0] != cluster.DNSService {
		t.Errorf("the kubelet's name server is %v", got)
	}
	if text := components.Rules("eth0", []string{"10.1.2.11"}); strings.Count(text, cluster.Pods) != 3 || !strings.Contains(text, "elements = { 10.1.2.11 }") {
		t.Errorf("the machine's rules are for other ranges or machines:\n%s", text)
	}
	if text, err := json.Marshal(components.DNS("localhost/coredns:1")); err != nil || !strings.Contains(string(text), `"clusterIP":"`+cluster.DNSService+`"`) {
		t.Errorf("CoreDNS has another address: %v", err)
	}
}

func TestKubelet(t *testing.T) {
	worker := components.Node{Name: "7-1", Address: "10.1.2.10", CA: "/ca.crt"}
	master := worker
	master.Control = true
	got := document(t, worker.Kubelet())
	for name, want := range map[string]any{"rotateCertificates": true, "serverTLSBootstrap": true, "readOnlyPort": 0.0, "cgroupDriver": "cgroupfs", "seccompDefault": true, "podPidsLimit": 4096.0} {
		if got[name] != want {
			t.Errorf("the kubelet's %s is %v, want %v", name, got[name], want)
		}
	}
	if anonymous := got["authentication"].(map[string]any)["anonymous"].(map[string]any)["enabled"]; anonymous != false {
		t.Error("strangers may use the kubelet")
	}
	if pids := got["kubeReserved"].(map[string]any)["pid"]; pids != "2000" {
		t.Errorf("%v processes and threads are kept for the machine itself", pids)
	}
	if a, b := got["kubeReserved"], document(t, master.Kubelet())["kubeReserved"]; a.(map[string]any)["memory"] == b.(map[string]any)["memory"] {
		t.Errorf("a control plane has no more memory than a worker: %v", a)
	}
	for _, want := range []string{"--node-ip=10.1.2.10", "--hostname-override=7-1", "--bootstrap-kubeconfig=/b", "--config=/c"} {
		if !slices.Contains(worker.KubeletFlags("/c", "/b"), want) {
			t.Errorf("the kubelet lacks %s", want)
		}
	}
}

func TestContainerd(t *testing.T) {
	text := components.Containerd("localhost/pause:9")
	for _, want := range []string{`sandbox = "localhost/pause:9"`, `address = "/run/containerd/containerd.sock"`, `conf_dir = "/run/croft/net.d"`, "SystemdCgroup = false"} {
		if !strings.Contains(text, want) {
			t.Errorf("containerd's configuration lacks %s", want)
		}
	}
}

func TestAuthentication(t *testing.T) {
	anonymous := document(t, components.Authentication())["anonymous"].(map[string]any)
	var paths []string
	for _, c := range anonymous["conditions"].([]any) {
		paths = append(paths, c.(map[string]any)["path"].(string))
	}
	if want := []string{"/livez", "/readyz", "/healthz", components.InfoPath}; !slices.Equal(paths, want) {
		t.Errorf("strangers may read %v, want %v", paths, want)
	}
}

// TestObjects holds that every object lies where its path says, and that no two are the same.
func TestObjects(t *testing.T) {
	token := cluster.Token{ID: "abcdef", Secret: "0123456789abcdef"}
	joining, err := components.Joining(token, "https://10.1.2.10:6443", []byte("CA"))
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile(`^/(api/v1|apis/([a-z0-9.]+/v1))/(?:namespaces/([a-z-]+)/)?([a-z]+)/([a-z0-9:.-]+)$`)
	seen := map[string]bool{}
	for _, o := range append(joining, components.DNS("localhost/coredns:1")...) {
		body := document(t, o.Body)
		meta := body["metadata"].(map[string]any)
		m := path.FindStringSubmatch(o.Path)
		if m == nil || seen[o.Path] {
			t.Errorf("path %s is none, or another object's", o.Path)
			continue
		}
		seen[o.Path] = true
		version, namespace := "v1", ""
		if m[2] != "" {
			version = m[2]
		}
		if n, ok := meta["namespace"].(string); ok {
			namespace = n
		}
		kind := strings.ToLower(body["kind"].(string)) + "s"
		if body["apiVersion"] != version || meta["name"] != m[5] || namespace != m[3] || kind != m[4] {
			t.Errorf("object %v %v %v/%v has path %s", body["apiVersion"], body["kind"], namespace, meta["name"], o.Path)
		}
	}
	// The secret is in the token's object alone.
	for _, o := range joining {
		text, _ := json.Marshal(o.Body)
		if has := strings.Contains(string(text), token.Secret); has != strings.Contains(o.Path, "/secrets/") {
			t.Errorf("object %s has the token's secret: %t", o.Path, has)
		}
	}
}

// TestAddressesOfBoots: host-local gives the addresses after the last one, in a circle; 110 pods, the kubelet's limit, of one boot
// have no address of the boot before.
func TestAddressesOfBoots(t *testing.T) {
	pods := netip.MustParsePrefix("100.96.7.0/24")
	for boot := range 4 {
		given := func(boot int) map[netip.Addr]bool {
			out := map[netip.Addr]bool{}
			for a := components.LastOf(pods, boot).Next(); len(out) < 110; a = a.Next() {
				if !pods.Contains(a) {
					t.Fatalf("boot %d gives %s", boot, a)
				}
				out[a] = true
			}
			return out
		}
		before, now := given(boot), given(boot+1)
		for a := range now {
			if before[a] {
				t.Fatalf("boots %d and %d both give %s", boot, boot+1, a)
			}
		}
	}
}

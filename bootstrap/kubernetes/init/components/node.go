package components

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/overlay"
)

// ContainerdSocket is where containerd answers.
const ContainerdSocket = "/run/containerd/containerd.sock"

// NetworkConfigs is the folder of the pods' network's configuration. It is in memory: the kubelet isn't ready before the
// machine has set the network up in this boot.
const NetworkConfigs = "/run/croft/net.d"

// Containerd is containerd's configuration, in TOML.
func Containerd(pause string) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = -999

[grpc]
address = %q

[plugins.'io.containerd.cri.v1.images']
snapshotter = "overlayfs"
# A power cut leaves no image that seems to be there and has empty files.
image_pull_with_sync_fs = true

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %q

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "/etc/containerd/certs.d"

[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "/usr/bin/runc"
SystemdCgroup = false

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = %q
`, ContainerdSocket, pause, NetworkConfigs)
}

// Node is a machine as its kubelet knows it.
type Node struct {
	Name    string
	Address string
	// CA is the path of the cluster's certificate authority.
	CA string
	// Control reports whether the control plane runs on the machine.
	Control bool
}

// Paths of the kubelet.
const (
	KubeletKubeconfig = "/var/lib/kubelet/kubeconfig"
	KubeletPKI        = "/var/lib/kubelet/pki"
	// KubeletClient is the certificate and the key that the kubelet's authority has issued last.
	KubeletClient = KubeletPKI + "/kubelet-client-current.pem"
)

// What pods may not have: memory in MiB, which the kernel, containerd, the kubelet and the control plane need, and processes and threads. Without
// a limit the threads of one pod are all that the kernel allows, and nothing can be started that would end it.
const (
	workerReserve  = 256
	controlReserve = 640
	reservedPIDs   = 2000
	podPIDs        = 4096
)

// Kubelet is the kubelet's configuration.
func (n Node) Kubelet() any {
	reserve := workerReserve
	if n.Control {
		reserve = controlReserve
	}
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{
			"anonymous": object{"enabled": false}, "webhook": object{"enabled": true}, "x509": object{"clientCAFile": n.CA},
		},
		"authorization":            object{"mode": "Webhook"},
		"cgroupDriver":             "cgroupfs",
		"clusterDNS":               []string{cluster.DNSService},
		"clusterDomain":            cluster.Domain,
		"containerRuntimeEndpoint": "unix://" + ContainerdSocket,
		"resolvConf":               "/etc/resolv.conf",
		"rotateCertificates":       true,
		"serverTLSBootstrap":       true,
		"seccompDefault":           true,
		"readOnlyPort":             0,
		"failSwapOn":               false,
		"makeIPTablesUtilChains":   false,
		"volumePluginDir":          "/var/lib/kubelet/volumeplugins",
		"kubeReserved":             object{"memory": fmt.Sprintf("%dMi", reserve), "pid": strconv.Itoa(reservedPIDs)},
		"podPidsLimit":             podPIDs,
		"evictionHard":             object{"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "15%", "nodefs.inodesFree": "5%"},
	}
}

// KubeletFlags are the flags beside the configuration, which is in a file at config. bootstrap is the path of the kubeconfig with
// which the machine asks for its first certificate; empty for one that has it.
func (n Node) KubeletFlags(config, bootstrap string) []string {
	out := []string{
		"--config=" + config, "--kubeconfig=" + KubeletKubeconfig, "--cert-dir=" + KubeletPKI, "--hostname-override=" + n.Name, "--node-ip=" + n.Address,
	}
	if bootstrap != "" {
		out = append(out, "--bootstrap-kubeconfig="+bootstrap)
	}
	return out
}

// ProxyHealth is where kube-proxy tells whether the rules of services are those that they should be.
const ProxyHealth = "127.0.0.1:10256"

// Proxy is kube-proxy's configuration; its kubeconfig is that of the machine's identity.
func (n Node) Proxy(kubeconfig string) any {
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode":               "nftables",
		"clientConnection":   object{"kubeconfig": kubeconfig},
		"clusterCIDR":        cluster.Pods,
		"hostnameOverride":   n.Name,
		"conntrack":          object{"maxPerCore": 0},
		"metricsBindAddress": "127.0.0.1:10249",
		"healthzBindAddress": ProxyHealth,
	}
}

// networkName is the name of the pods' network, and leases the folder in which host-local keeps the addresses that are taken: in
// memory, as no pod outlives the machine's boot.
const (
	networkName = "croft"
	leases      = "/run/croft/cni"
)

// LastAddress is the file that tells host-local the address that was given last; it gives the next one.
const LastAddress = leases + "/" + networkName + "/last_reserved_ip.0"

// LastOf is that address at a machine's boot of that number. The pods of one boot have other addresses than those of the boot
// before: until the cluster knows that they have moved, connections to the old addresses must fail, not reach other pods.
func LastOf(pods netip.Prefix, boot int) netip.Addr {
	a := pods.Addr().As4()
	a[3] = 1 + byte(boot%2)*127
	return netip.AddrFrom4(a)
}

// PodNetwork is the configuration of the pods' network plugins on a machine with that range of pods.
func PodNetwork(pods string) any {
	return object{
		"cniVersion": "1.0.0", "name": networkName,
		"plugins": []object{
			{
				"type": "ptp", "mtu": overlay.MTU,
				"ipam": object{
					"type": "host-local", "dataDir": leases, "ranges": [][]object{{{"subnet": pods}}}, "routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}, "backend": "nftables"},
		},
	}
}

// Rules are the machine's own rules for nft. What pods send out of the cluster comes from the machine's address, the only one that
// croft's network lets out of it. Packets of the overlay are taken of the cluster's machines only, by the interface that leads to
// them, and pods can't make any.
func Rules(device string, peers []string) string {
	members := ""
	if len(peers) > 0 {
		members = "elements = { " + strings.Join(peers, ", ") + " }"
	}
	return fmt.Sprintf(`table ip croft
delete table ip croft
table ip croft {
	set peers {
		type ipv4_addr
		%[4]s
	}
	chain input {
		type filter hook input priority -150; policy accept;
		udp dport %[5]d iifname != %[3]q drop
		udp dport %[5]d ip saddr != @peers drop
	}
	chain forward {
		type filter hook forward priority -150; policy accept;
		ip saddr %[1]s udp dport %[5]d drop
	}
	chain postrouting {
		type nat hook postrouting priority 110; policy accept;
		ip saddr %[1]s ip daddr != %[1]s oifname != %[2]q masquerade
	}
}
`, cluster.Pods, overlay.Interface, device, members, overlay.Port)
}

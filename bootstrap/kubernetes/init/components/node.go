package components

import (
	"fmt"

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

// Memory that pods may not have, in MiB: that of the kernel, containerd and the kubelet, and of the control plane.
const (
	workerReserve  = 256
	controlReserve = 640
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
		"kubeReserved":             object{"memory": fmt.Sprintf("%dMi", reserve)},
		"evictionHard":             object{"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "15%", "nodefs.inodesFree": "5%"},
	}
}

// KubeletFlags are the flags beside the configuration, which is in a file at config.
func (n Node) KubeletFlags(config, bootstrap string) []string {
	return []string{
		"--config=" + config, "--kubeconfig=" + KubeletKubeconfig, "--bootstrap-kubeconfig=" + bootstrap, "--cert-dir=" + KubeletPKI,
		"--hostname-override=" + n.Name, "--node-ip=" + n.Address,
	}
}

// Proxy is kube-proxy's configuration. It speaks to the API server as the machine's kubelet.
func (n Node) Proxy() any {
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode":               "nftables",
		"clientConnection":   object{"kubeconfig": KubeletKubeconfig},
		"clusterCIDR":        cluster.Pods,
		"hostnameOverride":   n.Name,
		"conntrack":          object{"maxPerCore": 0},
		"metricsBindAddress": "127.0.0.1:10249",
		"healthzBindAddress": "127.0.0.1:10256",
	}
}

// PodNetwork is the configuration of the pods' network plugins on a machine with that range of pods. Which addresses are
// taken is kept in memory: no pod outlives the machine's boot.
func PodNetwork(pods string) any {
	return object{
		"cniVersion": "1.0.0", "name": "croft",
		"plugins": []object{
			{
				"type": "ptp", "mtu": overlay.MTU,
				"ipam": object{
					"type": "host-local", "dataDir": "/run/croft/cni", "ranges": [][]object{{{"subnet": pods}}}, "routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}, "backend": "nftables"},
		},
	}
}

// Masquerade are rules for nft: what pods send out of the cluster comes from the machine's address, the only one that
// croft's network lets out of it.
func Masquerade() string {
	return fmt.Sprintf(`table ip croft
delete table ip croft
table ip croft {
	chain postrouting {
		type nat hook postrouting priority 110; policy accept;
		ip saddr %[1]s ip daddr != %[1]s oifname != %[2]q masquerade
	}
}
`, cluster.Pods, overlay.Interface)
}

package components

import (
	"fmt"
	"net/netip"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/pki"
)

// Names of the control plane's certificates, keys and authorities in their store.
const (
	ClusterCA         = "ca"
	FrontProxyCA      = "front-proxy-ca"
	APIServer         = "apiserver"
	APIServerKubelet  = "apiserver-kubelet-client"
	FrontProxy        = "front-proxy-client"
	Admin             = "admin"
	ControllerManager = "controller-manager"
	Scheduler         = "scheduler"
	Kubelet           = "kubelet"
	ServiceAccounts   = "service-accounts"
)

// Certificates are the certificates of a control plane by authority and name.
func Certificates(hostname string, addresses []netip.Addr) map[string]map[string]pki.Names {
	service, local := netip.MustParseAddr(cluster.APIService), netip.MustParseAddr("127.0.0.1")
	return map[string]map[string]pki.Names{
		ClusterCA: {
			APIServer: {
				CommonName: "kube-apiserver",
				DNS:        []string{hostname, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + cluster.Domain},
				Addresses:  append([]netip.Addr{service, local}, addresses...),
			},
			APIServerKubelet:  {CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}},
			Admin:             {CommonName: "kubernetes-admin", Organizations: []string{"system:masters"}},
			ControllerManager: {CommonName: "system:kube-controller-manager"},
			Scheduler:         {CommonName: "system:kube-scheduler"},
			// The control plane's own machine doesn't join by the secret, which its workers have too.
			Kubelet: {CommonName: "system:node:" + hostname, Organizations: []string{"system:nodes"}},
		},
		FrontProxyCA: {FrontProxy: {CommonName: "front-proxy-client"}},
	}
}

// Control is where the control plane's files are.
type Control struct {
	// Address is the machine's, which the API server tells others.
	Address string
	// Store has the certificates; CA and FrontProxyCA are the authorities' certificates alone.
	Store            *pki.Store
	CA, FrontProxyCA string
	// Kubeconfigs is the folder of the components' kubeconfigs, NAME.conf.
	Kubeconfigs string
	// Authentication is the path of the API server's authentication configuration.
	Authentication string
	// Etcd is etcd's folder, Socket that of its socket.
	Etcd, Socket string
}

// Server is the configuration of kube-server, the control plane's process.
type Server struct {
	Etcd              Etcd     `json:"etcd"`
	APIServer         []string `json:"apiserver"`
	ControllerManager []string `json:"controller_manager"`
	Scheduler         []string `json:"scheduler"`
}

// Etcd is where etcd keeps its data and its sockets.
type Etcd struct {
	Dir       string `json:"dir"`
	SocketDir string `json:"socket_dir"`
}

// Config is the configuration of the control plane's process.
func (c Control) Config() Server {
	return Server{
		Etcd:              Etcd{Dir: c.Etcd, SocketDir: c.Socket},
		APIServer:         c.apiServer(),
		ControllerManager: c.controllerManager(),
		Scheduler:         append(c.client(Scheduler), "--bind-address=127.0.0.1", "--profiling=false"),
	}
}

func (c Control) apiServer() []string {
	pem := c.Store.Path
	return []string{
		"--advertise-address=" + c.Address,
		fmt.Sprintf("--secure-port=%d", cluster.APIPort),
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--authentication-config=" + c.Authentication,
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true",
		"--client-ca-file=" + c.CA,
		"--tls-cert-file=" + pem(APIServer), "--tls-private-key-file=" + pem(APIServer),
		"--kubelet-certificate-authority=" + c.CA,
		"--kubelet-client-certificate=" + pem(APIServerKubelet), "--kubelet-client-key=" + pem(APIServerKubelet),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--service-cluster-ip-range=" + cluster.Services,
		"--service-account-issuer=https://kubernetes.default.svc." + cluster.Domain,
		"--service-account-key-file=" + pem(ServiceAccounts), "--service-account-signing-key-file=" + pem(ServiceAccounts),
		"--requestheader-client-ca-file=" + c.FrontProxyCA,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + pem(FrontProxy), "--proxy-client-key-file=" + pem(FrontProxy),
		"--profiling=false",
	}
}

func (c Control) controllerManager() []string {
	pem := c.Store.Path
	return append(c.client(ControllerManager),
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		"--use-service-account-credentials=true",
		"--root-ca-file="+c.CA,
		"--client-ca-file="+c.CA,
		"--requestheader-client-ca-file="+c.FrontProxyCA,
		"--service-account-private-key-file="+pem(ServiceAccounts),
		"--cluster-signing-cert-file="+pem(ClusterCA), "--cluster-signing-key-file="+pem(ClusterCA),
		"--allocate-node-cidrs=true", "--cluster-cidr="+cluster.Pods, "--node-cidr-mask-size=24",
		"--service-cluster-ip-range="+cluster.Services,
		"--bind-address=127.0.0.1", "--profiling=false",
	)
}

// client has a component speak to the API server, and ask it about its own callers.
func (c Control) client(name string) []string {
	path := c.Kubeconfigs + "/" + name + ".conf"
	return []string{"--kubeconfig=" + path, "--authentication-kubeconfig=" + path, "--authorization-kubeconfig=" + path}
}

// Authentication is the API server's authentication configuration: strangers may read only whether it is there, and
// cluster-info, by which workers join.
func Authentication() any {
	return object{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
		"anonymous": object{"enabled": true, "conditions": []object{
			{"path": "/livez"}, {"path": "/readyz"}, {"path": "/healthz"}, {"path": InfoPath},
		}},
	}
}

// object is a document in JSON.
type object = map[string]any

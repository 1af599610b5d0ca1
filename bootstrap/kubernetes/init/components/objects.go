package components

import (
	"github.com/croft-edge/croft/bootstrap/kubernetes/init/cluster"
)

// InfoPath is the API path of cluster-info.
const InfoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// Object is an object that the cluster must have, and its API path.
type Object struct {
	Path string
	Body any
}

// Bootstrappers is the group of machines that join. What they may have a certificate for, init decides: see approval.
const Bootstrappers = "system:bootstrappers:croft"

const rbac = "/apis/rbac.authorization.k8s.io/v1"

// Joining are the objects by which machines join: the token, cluster-info for those who know only the shared secret, and the
// rights to ask for certificates and to have them.
func Joining(t cluster.Token, server string, ca []byte) ([]Object, error) {
	info, err := cluster.NewKubeconfig(server, ca, nil).Encode()
	if err != nil {
		return nil, err
	}
	group := func(name string) object {
		return object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}
	}
	out := []Object{
		{"/api/v1/namespaces/kube-system/secrets/bootstrap-token-" + t.ID, object{
			"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "bootstrap-token-" + t.ID, "namespace": "kube-system"},
			"type": "bootstrap.kubernetes.io/token",
			"stringData": object{
				"token-id": t.ID, "token-secret": t.Secret, "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
				"auth-extra-groups": Bootstrappers,
			},
		}},
		{InfoPath, object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "cluster-info", "namespace": "kube-public"},
			"data": object{cluster.InfoKubeconfig: string(info)},
		}},
		{rbac + "/namespaces/kube-public/roles/croft:cluster-info", object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": object{"name": "croft:cluster-info", "namespace": "kube-public"},
			"rules": []object{{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "resourceNames": []string{"cluster-info"}, "verbs": []string{"get"}}},
		}},
		{rbac + "/namespaces/kube-public/rolebindings/croft:cluster-info", object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": object{"name": "croft:cluster-info", "namespace": "kube-public"},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "croft:cluster-info"},
			"subjects": []object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}},
		}},
	}
	for _, b := range []struct{ name, role, group string }{
		{"croft:node-bootstrapper", "system:node-bootstrapper", Bootstrappers},
		{"croft:node-renewal", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
		// A machine's kube-proxy and its init, which makes routes to others, are the machine.
		{"croft:node-proxier", "system:node-proxier", "system:nodes"},
	} {
		out = append(out, Object{rbac + "/clusterrolebindings/" + b.name, object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": object{"name": b.name},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": b.role},
			"subjects": []object{group(b.group)},
		}})
	}
	return out, nil
}

// corefile is CoreDNS' configuration: the cluster's names, and for all others the machine's own name servers. Each boot makes it anew; the
// cluster's owner adds to it by the ConfigMap coredns-custom: plugins of this server in NAME.override, other servers, on this
// port, in NAME.server.
const corefile = `.:5353 {
    errors
    health :8080
    ready :8181
    kubernetes ` + cluster.Domain + ` in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
    import /etc/coredns/custom/*.override
}
import /etc/coredns/custom/*.server
`

// ControlLabel is the label of the node that is the control plane.
const ControlLabel = "node-role.kubernetes.io/control-plane"

// dnsLabels are how pods of CoreDNS are found.
func dnsLabels() object { return object{"k8s-app": "kube-dns"} }

// DNS are the objects of the cluster's name server, CoreDNS of that image.
func DNS(image string) []Object {
	meta := object{"name": "coredns", "namespace": "kube-system"}
	return []Object{
		{"/api/v1/namespaces/kube-system/serviceaccounts/coredns", object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}},
		{rbac + "/clusterroles/system:coredns", object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": object{"name": "system:coredns"},
			"rules": []object{
				{"apiGroups": []string{""}, "resources": []string{"endpoints", "services", "pods", "namespaces"}, "verbs": []string{"list", "watch"}},
				{"apiGroups": []string{"discovery.k8s.io"}, "resources": []string{"endpointslices"}, "verbs": []string{"list", "watch"}},
			},
		}},
		{rbac + "/clusterrolebindings/system:coredns", object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": object{"name": "system:coredns"},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
			"subjects": []object{{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}},
		}},
		{"/api/v1/namespaces/kube-system/configmaps/coredns", object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": object{"Corefile": corefile},
		}},
		{"/api/v1/namespaces/kube-system/services/kube-dns", object{
			"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "kube-dns", "namespace": "kube-system", "labels": dnsLabels()},
			"spec": object{
				"clusterIP": cluster.DNSService, "selector": dnsLabels(),
				"ports": []object{
					{"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"},
					{"name": "dns-tcp", "port": 53, "targetPort": 5353, "protocol": "TCP"},
				},
			},
		}},
		{"/apis/apps/v1/namespaces/kube-system/deployments/coredns", object{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "coredns", "namespace": "kube-system", "labels": dnsLabels()},
			"spec": object{
				"selector": object{"matchLabels": dnsLabels()},
				"template": object{"metadata": object{"labels": dnsLabels()}, "spec": dnsPod(image)},
			},
		}},
	}
}

// dnsPod is CoreDNS without a right: not even that to listen on a low port.
func dnsPod(image string) object {
	return object{
		"serviceAccountName": "coredns",
		"priorityClassName":  "system-cluster-critical",
		"dnsPolicy":          "Default",
		"nodeSelector":       object{ControlLabel: ""}, // other machines come and go, and may have another image
		"tolerations":        []object{{"key": ControlLabel, "effect": "NoSchedule"}, {"key": "CriticalAddonsOnly", "operator": "Exists"}},
		"containers": []object{{
			"name": "coredns", "image": image, "imagePullPolicy": "Never",
			"args":      []string{"-conf", "/etc/coredns/Corefile"},
			"resources": object{"limits": object{"memory": "170Mi"}, "requests": object{"cpu": "50m", "memory": "70Mi"}},
			"volumeMounts": []object{
				{"name": "config", "mountPath": "/etc/coredns", "readOnly": true}, {"name": "custom", "mountPath": "/etc/coredns/custom", "readOnly": true},
			},
			"ports": []object{
				{"containerPort": 5353, "name": "dns", "protocol": "UDP"}, {"containerPort": 5353, "name": "dns-tcp", "protocol": "TCP"},
			},
			"readinessProbe": object{"httpGet": object{"path": "/ready", "port": 8181}, "periodSeconds": 2},
			"livenessProbe":  object{"httpGet": object{"path": "/health", "port": 8080}, "initialDelaySeconds": 60, "timeoutSeconds": 5, "failureThreshold": 5},
			"securityContext": object{
				"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
				"capabilities": object{"drop": []string{"ALL"}},
			},
		}},
		"volumes": []object{
			{"name": "config", "configMap": object{"name": "coredns", "items": []object{{"key": "Corefile", "path": "Corefile"}}}},
			{"name": "custom", "configMap": object{"name": "coredns-custom", "optional": true}},
		},
	}
}

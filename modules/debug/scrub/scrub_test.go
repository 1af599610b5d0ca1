package scrub_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/blinklabs-io/go-bip39"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/modules/debug/scrub"
)

const word12 = "abandon ability able about above absent absorb abstract absurd abuse access accident"

// TestLine is the specification of the lines that leave the node.
func TestLine(t *testing.T) {
	box := strings.Repeat("0aF9", 24)
	for _, c := range []struct{ name, line, want string }{
		{"nothing secret", `{"level":"info","id":"1-1","step":"provision","attempts":3,"took":1.50,"ok":true,"x":null,"message":"a < b & c"}`,
			`{"level":"info","id":"1-1","step":"provision","attempts":3,"took":1.50,"ok":true,"x":null,"message":"a < b & c"}`},
		{"a password", `{"password":"opensesame","id":"1-1"}`, `{"password":"[secret]","id":"1-1"}`},
		{"names in every form", `{"wg_private_key":"a","wgPrivateKey":"b","WG-PRIVATE-KEY":"c","ClusterSecret":"d","image_auth":"e","auth":"f","node_seed":"g","X-Auth-Token":"h"}`,
			`{"wg_private_key":"[secret]","wgPrivateKey":"[secret]","WG-PRIVATE-KEY":"[secret]","ClusterSecret":"[secret]","image_auth":"[secret]","auth":"[secret]","node_seed":"[secret]","X-Auth-Token":"[secret]"}`},
		{"names that aren't", `{"author":"a","key":"b","public_key":"c","authentic":"d","path":"e","node":"f"}`,
			`{"author":"a","key":"b","public_key":"c","authentic":"d","path":"e","node":"f"}`},
		{"values of every kind", `{"token":7,"secret":["a",{"b":"c"}],"seed":{"x":"y"},"auth":true,"password":null,"passphrase":""}`,
			`{"token":"[secret]","secret":"[secret]","seed":"[secret]","auth":true,"password":null,"passphrase":""}`},
		{"deeper", `{"a":[{"b":{"password":"x"}}]}`, `{"a":[{"b":{"password":"[secret]"}}]}`},
		{"JSON in a text", `{"message":"got {\"password\":\"x y\",\"id\":1}"}`, `{"message":"got {\"password\":[secret],\"id\":1}"}`},
		{"a document as a text", `{"data":"{\"token\":\"x y\",\"id\":1}"}`, `{"data":"{\"token\":\"[secret]\",\"id\":1}"}`},
		{"a URL", `{"err":"cannot dial redis://:p/w@d@host:6379/0: refused"}`, `{"err":"cannot dial redis://[secret]@host:6379/0: refused"}`},
		{"a URL with a user only", `{"bus":"tcp://opensesame@127.0.0.1:6379"}`, `{"bus":"tcp://[secret]@127.0.0.1:6379"}`},
		{"two URLs", "from http://a:b@c/d to https://e.example/@f", "from http://[secret]@c/d to https://e.example/@f"},
		{"a sealed box", `{"data":"` + box + `","hash":"` + box[:64] + `"}`, `{"data":"[secret]","hash":"` + box[:64] + `"}`},
		{"a sealed box under a name", "secret=" + box + ", id=1-1", "secret=[secret], id=1-1"},
		{"a private key", "key -----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----!", "key [secret]!"},
		{"a private key that is cut off", "-----BEGIN PRIVATE KEY-----\nAAAA", "[secret]"},
		{"a public one", "-----BEGIN PUBLIC KEY-----\nAAAA", "-----BEGIN PUBLIC KEY-----\nAAAA"},
		{"a WireGuard key by its name", "PrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\nPublicKey = xTIB", "PrivateKey = [secret]\nPublicKey = xTIB"},
		{"a private key in prose", "the private key: yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk= is bad", "the private key: [secret] is bad"},
		{"headers", "Authorization: Bearer abc", "Authorization: [secret]"},
		{"a bearer", "sent bearer abcdefgh12 to x", "sent bearer [secret] to x"},
		{"a web token", "got eyJhbGciOiJI.eyJzdWIi.c2ln_x.", "got [secret]."},
		{"key and value", "password=a b token:c 'secret'='d e' x=1", "password=[secret] b token:[secret] 'secret'=[secret] x=1"},
		{"a text without its end", `{"password":"open`, `{"password":[secret]`},
		{"quotes in quotes", `\"password\":\"a\\\"b\",\"id\":1`, `\"password\":[secret],\"id\":1`},
		{"a list", `token: [a, b] c`, `token: [secret]`},
		{"words", "restored from " + word12 + " of old", "restored from [secret] of old"},
		{"words in a value", `{"x":"` + strings.ToUpper(word12) + `"}`, `{"x":"[secret]"}`},
		{"fewer words are prose", "abandon ability able about", "abandon ability able about"},
		{"empty", "", ""},
		{"not an object", `["password","x"]`, `["password","x"]`},
		{"an object and more", `{"password":"x"} {"a":1}`, `{"password":[secret]} {"a":1}`},
	} {
		if got := scrub.Line(c.line); got != c.want {
			t.Errorf("%s:\n%s\nbecomes\n%s\nwant\n%s", c.name, c.line, got, c.want)
		}
	}
}

// secretIn draws a secret that no line contains by chance.
func secretIn(t *rapid.T) string {
	return "S3cr" + hex.EncodeToString(rapid.SliceOfN(rapid.Byte(), 8, 16).Draw(t, "secret")) + "t"
}

func TestNoValueOfASecretNameLeaves(t *testing.T) {
	names := []string{"password", "wg_private_key", "clusterSecret", "auth", "token", "seed", "api-key", "cluster_secret", "image_auth", "Cookie"}
	rapid.Check(t, func(t *rapid.T) {
		name, secret := rapid.SampledFrom(names).Draw(t, "name"), secretIn(t)
		other := rapid.String().Draw(t, "other")
		object := map[string]any{name: secret, "message": other, "deep": []any{map[string]any{name: map[string]any{"x": secret}}}}
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(raw)).Draw(t, "cut")
		asText := strconv.Quote(string(raw))
		for _, line := range []string{
			string(raw), string(raw[:cut]), `{"message":` + asText + `}`, "prose " + string(raw), asText,
			name + "=" + secret, name + ": " + secret + " " + other, name + "='" + secret + "'",
			"redis://u:" + secret + "@h/", "redis://" + secret + "@h/",
		} {
			got := scrub.Line(line)
			if strings.Contains(got, secret) || strings.Contains(got, secret[:16]) {
				t.Fatalf("%q becomes %q", line, got)
			}
			if json.Valid([]byte(line)) && strings.HasPrefix(line, "{") && !json.Valid([]byte(got)) {
				t.Fatalf("%q isn't JSON any more: %q", line, got)
			}
		}
	})
}

func TestSeedsInWordsDoNotLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed")
		words, err := bip39.NewMnemonic(seed)
		if err != nil {
			t.Fatal(err)
		}
		private := base64.StdEncoding.EncodeToString(seed)
		for _, line := range []string{words, "x: " + words + ".", `{"err":"` + strings.ReplaceAll(words, " ", ", ") + `"}`} {
			if got := scrub.Line(line); strings.Contains(got, strings.Fields(words)[5]+" ") && strings.Contains(got, strings.Fields(words)[12]) {
				t.Fatalf("%q becomes %q", line, got)
			}
		}
		if got := scrub.Line(`{"msg":"PrivateKey = ` + private + `"}`); strings.Contains(got, private[:20]) {
			t.Fatalf("%q", got)
		}
	})
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", `{"password":"x"}`, `{"a":{"b":[1,"://u:p@h"]}}`, `\"token\":\"`, "://@", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), "password=" + scrub.Mask, "\x00\xff{"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got := scrub.Line(line)
		if len(got) > 8*len(line)+len(scrub.Mask) {
			t.Fatalf("%d bytes become %d", len(line), len(got))
		}
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) && !strings.Contains(trimmed, strings.Repeat(`{`, 16)) && !json.Valid([]byte(got)) &&
			strings.Count(trimmed, "[")+strings.Count(trimmed, "{") <= 32 {
			t.Fatalf("%q isn't JSON any more: %q", line, got)
		}
		const secret = "Zq7-opensesame-7Zq"
		raw, err := json.Marshal(map[string]string{"password": secret, "message": line})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, secret) {
			return
		}
		if got := scrub.Line(string(raw)); strings.Contains(got, secret) {
			t.Fatalf("%q leaves %q", line, got)
		}
	})
}

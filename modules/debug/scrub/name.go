package scrub

import (
	"strings"
	"unicode"
)

// secretName reports whether a value of that name is a secret. Names are split into
// words, however they are joined: wg_private_key, wgPrivateKey, WG-PRIVATE-KEY.
func secretName(name string) bool {
	if len(name) > maxName {
		return false
	}
	for _, word := range wordsOf(name) {
		switch word {
		case "auth", "seed", "seeds", "pwd", "psk", "pass", "mnemonic", "jwt":
			return true
		}
	}
	joined := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	for _, part := range []string{
		"password", "passwd", "passphrase", "secret", "privatekey", "privkey", "token", "mnemonic", "credential",
		"apikey", "accesskey", "presharedkey", "authorization", "cookie",
	} {
		if strings.Contains(joined, part) {
			return true
		}
	}
	return false
}

// maxName is the length of the longest name examined; longer ones name no secret.
const maxName = 128

// wordsOf are the words of a name in lower case.
func wordsOf(name string) []string {
	var out []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	lower := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
			end()
			lower = false
			continue
		case unicode.IsUpper(r) && lower:
			end()
		}
		lower = unicode.IsLower(r)
		word.WriteRune(unicode.ToLower(r))
	}
	end()
	return out
}

# shellcheck shell=bash
# The cluster's own certificate authority. Set before: DIR, API_ADDRESS, API_PORT.

make_authority() {
  mkdir -p "$DIR/pki"
  (
    cd "$DIR/pki"
    umask 077
    openssl ecparam -name prime256v1 -genkey -noout -out ca.key
    openssl req -x509 -new -key ca.key -days 30 -subj "/CN=trawler-test" -out ca.crt
    # Signs the tokens of service accounts.
    openssl ecparam -name prime256v1 -genkey -noout -out tokens.key
    openssl ec -in tokens.key -pubout -out tokens.pub
  ) > "$DIR/logs/certificates.log" 2>&1 || fail "openssl made no certificate authority; see $DIR/logs/certificates.log"
}

# make_certificate NAME SUBJECT [ALTERNATIVE-NAMES]: for clients, and for servers under these names.
make_certificate() {
  (
    cd "$DIR/pki"
    umask 077
    openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
    {
      printf 'keyUsage=digitalSignature\nextendedKeyUsage=clientAuth,serverAuth\n'
      [ -z "${3:-}" ] || printf 'subjectAltName=%s\n' "$3"
    } > "$1.ext"
    openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt"
  ) >> "$DIR/logs/certificates.log" 2>&1 || fail "openssl made no certificate for $1; see $DIR/logs/certificates.log"
}

# make_kubeconfig NAME FILE: for the client whose certificate has that name.
make_kubeconfig() {
  local pki="$DIR/pki"
  (
    umask 077
    cat > "$2" << YAML
apiVersion: v1
kind: Config
current-context: trawler-test
contexts:
  - {name: trawler-test, context: {cluster: trawler-test, user: "$1"}}
clusters:
  - name: trawler-test
    cluster:
      server: https://$API_ADDRESS:$API_PORT
      certificate-authority-data: $(base64 -w 0 "$pki/ca.crt")
users:
  - name: "$1"
    user:
      client-certificate-data: $(base64 -w 0 "$pki/$1.crt")
      client-key-data: $(base64 -w 0 "$pki/$1.key")
YAML
  )
}

# make_client NAME SUBJECT: certificate and kubeconfig (DIR/pki/NAME.kubeconfig).
make_client() {
  make_certificate "$1" "$2"
  make_kubeconfig "$1" "$DIR/pki/$1.kubeconfig"
}

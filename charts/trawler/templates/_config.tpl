{{/* The operator's configuration. Whole numbers are made such: Helm reads them as floating point. */}}
{{- define "trawler.config" -}}
tokens: {{ .Values.tokens | int }}
crawler:
  image: {{ include "trawler.ownImage" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- with include "trawler.pullSecrets" . }}
  {{- . | nindent 2 }}
  {{- end }}
  serviceAccountName: {{ include "trawler.crawlerName" . }}
  redisUrl: {{ include "trawler.redisCrawlerUrl" . | quote }}
  {{- with include "trawler.redisSecret" . }}
  redisSecretName: {{ . }}
  redisPasswordKey: {{ if and $.Values.redis.external.url (not $.Values.redis.external.crawlerUrl) }}owner-password{{ else }}crawler-password{{ end }}
  {{- end }}
  {{- if and .Values.redis.external.url .Values.redis.external.caKey }}
  redisCaKey: {{ .Values.redis.external.caKey | quote }}
  {{- end }}
  # NetworkPolicies know crawlers by these labels.
  podLabels:
    {{- include "trawler.podLabels" (list . "crawler" .Values.crawler.podLabels) | nindent 4 }}
  {{- with .Values.crawler.podAnnotations }}
  podAnnotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.crawler.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.crawler.allowPrivateNetworks }}
  allowPrivateNetworks:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.crawler.contact }}
  contact: {{ . | quote }}
  {{- end }}
  {{- with .Values.crawler.proxy }}
  proxy: {{ . | quote }}
  {{- end }}
  logLevel: {{ .Values.crawler.logLevel | quote }}
  terminationGracePeriodSeconds: {{ .Values.crawler.terminationGracePeriodSeconds | int }}
crawlerClasses:
  {{- toYaml .Values.crawlerClasses | nindent 2 }}
{{- end }}

"""Logs as owners have them: in many separators, encodings, languages and formats of times."""

import random
from datetime import datetime, timedelta

QUERIES = {
    "latin-1": "wetter münchen,öffnungszeiten zoo,straßenbahn köln,bücher günstig,kälte größe,fußball heute",
    "cp1252": "météo à paris,hôtel pas cher,près de chez moi,recette gâteau,l’été œuvre,français élève",
    "cp1250": "pogoda łódź,księgarnia gdańsk,żółw ćwiczenia,szczęście książka,źródło światło,sąd rejonowy",
    "cp1251": "погода москва,купить книгу,расписание поездов,рецепт борща,новости сегодня,карта города",
    "gb18030": "北京天气预报,手机价格,小说下载,中国地图,怎么做红烧肉,电影在线",
    "shift_jis": "東京の天気,カメラ 価格,レシピ 簡単,電車の時刻表,ホテル 予約,映画 おすすめ",
    "euc-kr": "서울 날씨,영화 추천,가격 비교,다운로드 방법,맛집 부산,지하철 노선도",
    "utf-8": "wetter münchen,погода москва,東京の天気,météo à paris,weather boston,prévisions",
    "utf-16": "wetter münchen,погода москва,東京の天気,météo à paris,weather boston,prévisions",
}
HEADERS = {
    "English": ("visitor", "search term", "timestamp", "clicked url"),
    "German": ("Nutzer", "Suchanfrage", "Zeitpunkt", "Klick"),
    "French": ("Utilisateur", "Requete", "Date", "Lien"),
    "Spanish": ("Usuario", "Consulta", "Fecha", "Enlace"),
    "Italian": ("Utente", "Ricerca", "Data", "Risultato"),
    "Dutch": ("Gebruiker", "Zoekopdracht", "Tijdstip", "Resultaat"),
}
URLS = ("", "https://www.example.org/a?b=1", "http://example.com/page", "shop.example.net/x")


def random_times(n, *, days=60, start=datetime(2025, 9, 1)):
    """Times of a log, in no order."""
    rng = random.Random(5)
    return [start + timedelta(seconds=rng.randrange(86400 * days)) for _ in range(n)]


def make_rows(n=300, *, queries=QUERIES["latin-1"], time="%d.%m.%Y %H:%M", days=60):
    """(user, query, time, url) as texts."""
    rng, texts = random.Random(7), queries.split(",")
    for moment in random_times(n, days=days):
        query = texts[min(rng.randrange(len(texts)), rng.randrange(len(texts)))]
        yield f"u{rng.randrange(n // 5)}", query, moment.strftime(time), rng.choice(URLS)


def write_log(
    path, lines, *, header=HEADERS["German"], delimiter=";", encoding="latin-1", end="\r\n"
):
    """A text file of these rows; returns its path."""
    every = [header, *lines] if header else lines
    text = "".join(delimiter.join(line) + end for line in every)
    path.write_bytes(text.encode(encoding))
    return str(path)
